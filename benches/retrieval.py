#!/usr/bin/env python3
"""Measures the built-in retrieval engines on the Django source, in one run.

grep beside ripgrep: the same expressions over the same files. Ours reads the folder once
and keeps it; ripgrep is a process per expression. Both ways of counting are given.

bm25 beside Python's rank-bm25: index and 1,000 queries over the same chunks. Ours also
reads the files and cuts them, which rank-bm25 is spared: it is given the chunks. The
profile `reference` is the same formula over the same words, so its best scores must be
those of rank-bm25, and that is checked. The profile `code` has words of its own.

symbols: reading, parsing and indexing everything.

CPU is user and system time of whole processes; rounds alternate, figures are medians. The
source is the archive pinned in datasets/repos.toml, fetched by pip's own downloader.
Everything lies under target/bench/.

usage: retrieval.py [--folder DIR] [--rounds K] [--queries N]
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile

import measure

VERSION = "5.2"
# What a developer new to Django would look for; names, plain words and both.
QUESTIONS = """where is MigrationAutodetector defined?
who calls get_or_create?
how does the URL resolver match a path to a view?
which tests cover QuerySet.bulk_create?
where are cookies signed and how is the signature checked?
what breaks if select_related changes?
how is a template tag registered in a Library?
where does the middleware chain get loaded?
how are passwords hashed and upgraded?
which class compiles a Q object into SQL?
where is the SessionStore saved to the database?
how does the admin build its changelist filters?
what does transaction.atomic do when a savepoint fails?
where is CSRF token rotated after login?
how are translations activated per thread?
which function renders form fields as HTML?
where is the cache key made from the request headers?
how does the autoreloader notice changed files?
who uses force_str?
where are signals connected and sent?""".splitlines()

RANK = r"""
import json, sys, time
from rank_bm25 import BM25Okapi
import numpy
texts, queries, out = sys.argv[1:4]
strip = ".,;:!?()[]{}'\"\\/"
def words(text):
    bare = (word.strip(strip) for word in text.lower().split())
    return [word for word in bare if word and not word.isnumeric()]
texts = [json.loads(line) for line in open(texts)]
queries = [line.rstrip("\n") for line in open(queries)]
clock = time.process_time()
index = BM25Okapi([words(text) for text in texts])
indexed = time.process_time()
best = []
for query in queries:
    scores = index.get_scores(words(query))
    top = numpy.argpartition(scores, -10)[-10:] if len(scores) > 10 else range(len(scores))
    best.append(float(max(scores[i] for i in top)))
asked = time.process_time()
json.dump({"index": indexed - clock, "ask": asked - indexed, "best": best}, open(out, "w"))
"""


def fetch():
    """Folder of the unpacked source, fetched when it is not there."""
    folder = f"{measure.WORK}/django"
    with open(f"{measure.ROOT}/datasets/repos.toml") as file:
        pin = re.search(rf'pypi = "django=={VERSION}", sha256 = "([0-9a-f]+)"', file.read()).group(1)
    if not os.path.isdir(f"{folder}/django-{VERSION}"):
        os.makedirs(folder, exist_ok=True)
        script = f"{measure.ROOT}/src/corpus/sdist.py"
        subprocess.run([sys.executable, script, "django", VERSION, folder], check=True, stdout=sys.stderr)
        with open(f"{folder}/archive", "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
        if found != pin:
            sys.exit(f"the archive of django {VERSION} has SHA-256 {found}, not {pin}")
        with tarfile.open(f"{folder}/archive") as archive:
            top = archive.getnames()[0].split("/")[0]
            archive.extractall(folder, filter="data")
        os.rename(f"{folder}/{top}", f"{folder}/django-{VERSION}")
    return f"{folder}/django-{VERSION}"


def program():
    """Path of the bench program benches/retrieve.rs, built."""
    command = ["cargo", "bench", "--bench", "retrieve", "--no-run", "--locked", "--message-format=json"]
    done = subprocess.run(command, cwd=measure.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if row.get("reason") == "compiler-artifact" and row["target"]["name"] == "retrieve" and row.get("executable"):
            return row["executable"]
    sys.exit("cargo built no bench `retrieve`")


def queries(texts, number):
    """Queries made of words of random chunks, always the same ones."""
    source = random.Random(20260601)
    out = []
    while len(out) < number:
        words = re.findall(r"[A-Za-z_]\w{2,}", source.choice(texts))
        if len(words) >= 8:
            at = source.randrange(len(words) - 7)
            out.append(" ".join(words[at:at + 8]))
    return out


def write(path, lines):
    with open(path, "w") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


class Bench:
    def __init__(self, folder, ours, rounds):
        self.folder, self.ours, self.rounds = folder, ours, rounds
        self.log = measure.Log(f"{measure.WORK}/retrieval.jsonl")
        self.answers = {}

    def once(self, what, argv):
        """CPU seconds of a process; what it printed last is kept."""
        out = f"{measure.WORK}/retrieval.out"
        row = measure.run(argv, self.folder, out)
        # ripgrep ends with 1 when nothing matches.
        if row["code"] not in ((0, 1) if what.startswith("rg") else (0,)):
            sys.exit(f"{' '.join(argv)} failed with {row['code']}, see {out}")
        self.log.add(what=what, **row)
        with open(out, "rb") as file:
            self.answers[what] = file.read()
        return row["cpu"]

    def cpu(self, what):
        return measure.median(row["cpu"] for row in self.log.of(what=what))

    def turns(self, jobs):
        """Runs jobs (name to argv), every second round in reverse order."""
        for turn in range(self.rounds):
            for what in jobs if turn % 2 == 0 else reversed(jobs):
                self.once(what, jobs[what])
        return {what: self.cpu(what) for what in jobs}


def grep(bench):
    rg = shutil.which("rg")
    asked = write(f"{measure.WORK}/questions", QUESTIONS)
    done = subprocess.run([bench.ours, "-", "patterns", asked], check=True, capture_output=True, text=True)
    patterns = done.stdout.splitlines()
    one = [bench.ours, bench.folder, "grep"]
    jobs = {"grep all": [*one, asked], "grep read": one}
    singles = {f"grep {i}": [*one, write(f"{measure.WORK}/question-{i}", [q])] for i, q in enumerate(QUESTIONS)}
    if rg is None:
        print("ripgrep is absent: `rg` is not on PATH\n")
        bench.turns(jobs)
        return None
    # The same files: none is ignored, none above 2 MiB; one thread, which costs ripgrep least CPU.
    flags = ["-j1", "--no-ignore", "--hidden", "--glob", "!.git", "--max-filesize", "2M", "--no-heading", "-n"]
    rgs = {f"rg {i}": [rg, *flags, "-e", pattern, bench.folder] for i, pattern in enumerate(patterns)}
    mixed = [job for pair in zip(singles.items(), rgs.items()) for job in pair]
    bench.turns(jobs | dict(mixed))
    theirs = sum(bench.cpu(what) for what in rgs)
    alone = sum(bench.cpu(what) for what in singles)
    ours = bench.cpu("grep all")
    search = ours - bench.cpu("grep read")
    worst = max(range(len(patterns)), key=lambda i: bench.cpu(f"grep {i}") / bench.cpu(f"rg {i}"))
    rows = [
        [f"ripgrep, {len(patterns)} processes", measure.seconds(theirs), "1.00"],
        ["grep engine, one process: reads once, then all questions", measure.seconds(ours), f"{ours / theirs:.2f}"],
        ["of that the searches alone", measure.seconds(search), f"{search / theirs:.2f}"],
        [f"grep engine, {len(patterns)} processes: reads each time", measure.seconds(alone), f"{alone / theirs:.2f}"],
        [f"the same, worst question: `{QUESTIONS[worst]}`", measure.seconds(bench.cpu(f"grep {worst}")),
         f"{bench.cpu(f'grep {worst}') / bench.cpu(f'rg {worst}'):.2f}"],
    ]
    print(f"**grep**, {measure.version([rg, '--version'])}, `rg {' '.join(flags)} -e EXPRESSION`\n")
    print(measure.table(["what", "CPU", "over ripgrep"], rows) + "\n")
    return alone / theirs


def bm25(bench, number):
    slowest = None
    python = measure.venv("rank-bm25", ["rank-bm25==0.2.2"])
    rows = []
    for profile in ("reference", "code"):
        texts = f"{measure.WORK}/texts-{profile}"
        with open(texts, "wb") as file:
            subprocess.run([bench.ours, bench.folder, "texts", profile], check=True, stdout=file)
        with open(texts) as file:
            asked = write(f"{measure.WORK}/queries-{profile}", queries([json.loads(line) for line in file], number))
        argv = [bench.ours, bench.folder, f"bm25/{profile}"]
        jobs = {f"bm25 {profile} index": argv, f"bm25 {profile}": [*argv, asked]}
        bench.turns(jobs)
        said = json.loads(bench.answers[f"bm25 {profile}"])
        whole, index = bench.cpu(f"bm25 {profile}"), bench.cpu(f"bm25 {profile} index")
        rows.append([f"ours, `{profile}`, with reading and cutting {said['files']:,} files", f"{said['chunks']:,}",
                     measure.seconds(index), measure.seconds(whole - index), measure.seconds(whole), "1.0"])
        if python is None:
            rows.append([f"rank-bm25, chunks of `{profile}`", "", "absent: could not be installed", "", "", ""])
            continue
        out = f"{measure.WORK}/rank-{profile}.json"
        row = measure.run([f"{python}/python", "-c", RANK, texts, asked, out], bench.folder, f"{measure.WORK}/rank.log", 3600)
        if row["code"] != 0:
            sys.exit(f"rank-bm25 failed, see {measure.WORK}/rank.log")
        with open(out) as file:
            theirs = json.load(file)
        # Its own clock: reading the chunks and starting Python are not counted.
        total = theirs["index"] + theirs["ask"]
        bench.log.add(what=f"rank-bm25 {profile}", cpu=total)
        rows.append([f"rank-bm25, chunks of `{profile}`", f"{said['chunks']:,}", measure.seconds(theirs["index"]),
                     measure.seconds(theirs["ask"]), measure.seconds(total), f"{total / whole:.1f}"])
        slowest = min(slowest or 1e9, total / whole)
        if profile == "reference":
            scores = [first[2] if first else 0.0 for first in said["first"]]
            off = sum(abs(a - b) > 1e-6 * max(1.0, abs(b)) for a, b in zip(scores, theirs["best"]))
            rows.append([f"best scores that differ, of {number:,}", "", "", "", off, ""])
    print(f"**bm25**, index and {number:,} queries\n")
    print(measure.table(["what", "chunks", "index", "queries", "CPU", "times ours"], rows) + "\n")
    return slowest


def symbols(bench):
    bench.turns({"symbols": [bench.ours, bench.folder, "symbols"]})
    said = json.loads(bench.answers["symbols"])
    cpu = bench.cpu("symbols")
    row = [f"{said['files']:,}", f"{said['bytes'] / 1e6:.1f} MB", f"{said['chunks']:,}", measure.seconds(cpu)]
    print("**symbols**\n\n" + measure.table(["files", "text", "definitions", "CPU of the index"], [row]) + "\n")
    return cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="another source tree than Django's")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--only", default="grep,bm25,symbols")
    asked = parser.parse_args()
    os.makedirs(measure.WORK, exist_ok=True)
    bench = Bench(asked.folder or fetch(), program(), asked.rounds)
    facts = measure.machine()
    bench.log.add(machine=facts)
    print("Machine: {cpu}, {processors} processors, kernel {kernel}; load before the run {load}.\n".format(**facts))
    only = asked.only.split(",")
    rows = []

    def bar(what, value, bound, good):
        rows.append([what, "not measured" if value is None else f"{value:.2f}", bound,
                     "" if value is None else "holds" if good(value) else "MISSED"])

    if "grep" in only:
        bar("grep: CPU over ripgrep's, a process each", grep(bench), "≤ 1.5", lambda v: v <= 1.5)
    if "bm25" in only:
        bar("bm25: rank-bm25's CPU over ours", bm25(bench, asked.queries), "≥ 20", lambda v: v >= 20)
    if "symbols" in only:
        bar("symbols: CPU seconds", symbols(bench), "< 3", lambda v: v < 3)
    print("**Bars**\n\n" + measure.table(["bar", "measured", "bound", ""], rows))


if __name__ == "__main__":
    main()
