#!/usr/bin/env python3
"""What tests/network.sh asserts about runs, apart from exit codes.

Only the standard library. Each subcommand reads what the program printed and
ends with the first thing that is not as it must be.
"""

import argparse
import json
import os
import pathlib
import re
import struct
import sys


def fail(text):
    sys.exit(f"network test: {text}")


def lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line.strip()]


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def subset(args):
    """Writes a dataset with one repository and every n-th of its questions, warm-ups as they are."""
    source, into = pathlib.Path(args.source), pathlib.Path(args.into)
    (into / "questions").mkdir(parents=True, exist_ok=True)
    repos = re.split(r"^(?=\[repo\.)", (source / "repos.toml").read_text(), flags=re.M)
    wanted = [block for block in repos[1:] if block.startswith(f"[repo.{args.repo}]")]
    if len(wanted) != 1:
        fail(f"{source}/repos.toml has {len(wanted)} entries for {args.repo}")
    (into / "repos.toml").write_text("format = 1\n\n" + wanted[0])
    text = (source / "questions" / f"{args.repo}.toml").read_text()
    blocks = re.split(r"^(?=\[\[(?:question|warmup)\]\])", text, flags=re.M)
    questions = [block for block in blocks if block.startswith("[[question]]")]
    kept = questions[:: args.every]
    rest = [block for block in blocks if not block.startswith("[[question]]")]
    (into / "questions" / f"{args.repo}.toml").write_text("".join(rest + kept))
    print(len(kept))


def unpin(args):
    """Copies a dataset with one digit of one archive's digest changed."""
    source, into = pathlib.Path(args.source), pathlib.Path(args.into)
    (into / "questions").mkdir(parents=True, exist_ok=True)
    for file in (source / "questions").iterdir():
        (into / "questions" / file.name).write_bytes(file.read_bytes())
    at = f"[repo.{args.repo}]"
    head, tail = (source / "repos.toml").read_text().split(at)
    old = re.search(r'sha256 = "(.)', tail)
    new = "0" if old[1] != "0" else "1"
    (into / "repos.toml").write_text(head + at + tail[: old.start(1)] + new + tail[old.end(1) :])


def outcome(args):
    """The one object of `run --json`."""
    said = load(args.file)
    if said["exit"] != args.exit or said["state"] != args.state:
        fail(f"the run ended as {said}, expected state {args.state}, exit {args.exit}")
    if args.executed is not None and said["nodes"]["executed"] != args.executed:
        fail(f"{said['nodes']['executed']} nodes were executed, expected {args.executed}")
    print(f"   run {said['run']}: {said['state']}, exit {said['exit']}, nodes {said['nodes']}")


def metrics_of(report):
    return {arm["arm"]: arm["metrics"] for arm in report["result"]["arms"]}


def servers(args):
    """Rows and report of a run over servers: a state for each cell, and the states that are expected."""
    rows, report = lines(args.rows), load(args.report)
    metrics = metrics_of(report)
    valid, broken = args.valid.split(","), [arm for arm in args.broken.split(",") if arm]
    cells = report["result"]["cells"]
    wanted = args.questions * (len(valid) + len(broken))
    if len(rows) != wanted or cells["planned"] != wanted:
        fail(f"{len(rows)} rows, {cells['planned']} cells planned, expected {wanted} of each")
    if sum(cells[state] for state in ("valid", "invalid", "error", "missing")) != wanted:
        fail(f"the states don't sum up: {cells}")
    for row in rows:
        if row["state"] not in ("valid", "invalid", "error", "missing"):
            fail(f"a row without a state: {row}")
    for arm in valid:
        own = [row for row in rows if row["arm"] == arm]
        odd = [row for row in own if row["state"] != "valid"]
        if odd:
            fail(f"{arm}: {len(odd)} of {len(own)} rows are not valid, such as {json.dumps(odd[0])[:1500]}")
        for row in own:
            for hit in row["results"]:
                name = hit["file"]
                if name is not None and (name.startswith(("/", "./", "@")) or "\\" in name):
                    fail(f"{arm}: a path that is not relative to the corpus: {name}")
        hit = metrics[arm]["hit@10"]
        if hit["n"] != args.questions or not hit["value"] or hit["value"] <= 0:
            fail(f"{arm}: hit@10 is {hit}")
        latency = metrics[arm]["latency_p50_ms"]["value"]
        if latency is None or latency <= 0:
            fail(f"{arm}: latency_p50_ms is {latency}")
        print(f"   {arm:18} valid  hit@10 {hit['value']:.3f}  mrr {metrics[arm]['mrr']['value']:.3f}  p50 {latency:.1f} ms")
    for arm in broken:
        own = [row for row in rows if row["arm"] == arm]
        for row in own:
            if row["state"] != "error" or not row["codes"] or row["rank"] is not None or row["results"]:
                fail(f"{arm}: not in error: {json.dumps(row)[:800]}")
            if not re.search(args.words, row["error"] or ""):
                fail(f"{arm}: its own words (/{args.words}/) are missing in: {row['error']}")
        for name in ("hit@1", "hit@10", "mrr", "retrieval"):
            if metrics[arm][name]["value"] is not None:
                fail(f"{arm}: in error throughout, but {name} is {metrics[arm][name]}")
        print(f"   {arm:18} error  {own[0]['codes']}: {' '.join(own[0]['error'].split())[:150]}")


def row(args):
    """Servers that each have a row of valid cells in a report, as many as the others."""
    rows, metrics = lines(args.rows), metrics_of(load(args.report))
    counts = set()
    for arm in args.want.split(","):
        own = [row for row in rows if row["arm"] == arm]
        odd = [row for row in own if row["state"] != "valid"]
        if not own or odd:
            fail(f"{arm}: {len(own)} rows, {len(odd)} not valid, such as {json.dumps(odd[:1])[:800]}")
        if not metrics[arm]["hit@10"]["value"]:
            fail(f"{arm}: hit@10 is {metrics[arm]['hit@10']}")
        counts.add(len(own))
        print(f"   {arm:18} hit@10 {metrics[arm]['hit@10']['value']:.3f} over {len(own)} rows")
    if len(counts) != 1:
        fail(f"arms have different numbers of rows: {counts}")


def session(args):
    """Facts and raw replies of one server's session: nothing left, nothing touched, the known answer in its own words."""
    facts, replies = load(args.facts), lines(args.replies)
    for name in ("survivors", "corpus_changed"):
        if facts[name]:
            fail(f"{args.arm}: {name}: {facts[name]}")
    if facts["trouble"]:
        fail(f"{args.arm}: {facts['trouble']}")
    known = [json.dumps(reply["outcome"]) for reply in replies if reply["phase"] == "known"]
    if not any(args.file in reply for reply in known):
        fail(f"{args.arm}: none of {len(known)} replies to the known-answer question names {args.file}")


def left(args):
    """No process is alive that was started with this folder in its environment or command."""
    mark, mine = args.folder.encode(), set()
    at = os.getpid()
    while at > 1:
        mine.add(at)
        stat = pathlib.Path(f"/proc/{at}/stat").read_text()
        at = int(stat.rsplit(")", 1)[1].split()[1])
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in mine:
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if words and mark in words + (entry / "environ").read_bytes():
                found.append(f"{entry.name}: {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}")
        except OSError:
            continue
    if found:
        fail("processes are left: " + "; ".join(found))


def loopback(args):
    """Brings the loopback interface of a fresh network namespace up, and makes sure that there is no other."""
    import fcntl
    import socket

    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        fail(f"the namespace has interfaces {names}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        get, put, up = 0x8913, 0x8914, 1
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(sock, get, request))[1]
        fcntl.ioctl(sock, put, struct.pack("16sh22x", b"lo", flags | up))


def oracle(args):
    """Compares the reference BM25 with its published lists and figures; prints how many comparisons were made."""
    metrics = metrics_of(load(args.report))[args.arm]
    reference = load(args.reference)
    plain = lambda task: task.replace("-", "_")
    rows = {plain(row["task"]): row for row in lines(args.rows) if row["arm"] == args.arm}
    equal, checks = 0, 0
    for task, top in sorted(reference["top10"].items()):
        if plain(task) not in rows:
            fail(f"oracle: no row for {task}")
        wanted = [item[0] for item in top]
        got = [hit["file"] for hit in rows[plain(task)]["results"][:10]]
        checks += 1
        equal += wanted == got
        if wanted != got:
            print(f"   {task} differs: expected {wanted}, got {got}")
    if equal < checks - 1 or checks != reference["aggregate"]["questions"]:
        fail(f"oracle: {equal} of {checks} lists are equal")
    for name, theirs in (
        ("hit@1", "hit_at_1"),
        ("hit@3", "hit_at_3"),
        ("hit@5", "hit_at_5"),
        ("hit@10", "hit_at_10"),
        ("symbol_hit@5", "symbol_hit_at_5"),
        ("mrr", "mrr"),
    ):
        checks += 1
        value, wanted = metrics[name]["value"], reference["aggregate"][theirs]
        if value is None or f"{value:.4f}" != f"{wanted:.4f}":
            fail(f"oracle: {name} is {value}, expected {wanted:.4f}")
    print(f"   {equal} of {len(reference['top10'])} lists equal, 6 figures equal to four places")
    print(f"oracle checks: {checks}")


def better(args):
    """The default profile beside the reference's: printed, and better on Hit@5 and MRR."""
    metrics = metrics_of(load(args.report))
    worse = []
    for name in ("hit@1", "hit@5", "hit@10", "symbol_hit@5", "mrr"):
        ours, theirs = metrics["bm25"][name]["value"], metrics["bm25-reference"][name]["value"]
        print(f"   {args.repo} {name:13} bm25 {ours:.4f}  bm25-reference {theirs:.4f}")
        if name in ("hit@5", "mrr") and ours <= theirs:
            worse.append(name)
    if worse:
        fail(f"{args.repo}: bm25 is not better than bm25-reference on {', '.join(worse)}")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)

    def command(call, *positional, **options):
        sub = commands.add_parser(call.__name__)
        for name in positional:
            sub.add_argument(name)
        for name, (kind, default) in options.items():
            sub.add_argument(f"--{name}", type=kind, default=default)
        sub.set_defaults(call=call)

    command(subset, "source", "into", "repo", every=(int, 3))
    command(unpin, "source", "into", "repo")
    command(outcome, "file", state=(str, "complete"), exit=(int, 0), executed=(int, None))
    command(servers, "rows", "report", questions=(int, 0), valid=(str, ""), broken=(str, ""), words=(str, "."))
    command(row, "rows", "report", want=(str, ""))
    command(session, "arm", "facts", "replies", "file")
    command(left, "folder")
    command(loopback)
    command(oracle, "rows", "report", "reference", "arm")
    command(better, "report", "repo")
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
