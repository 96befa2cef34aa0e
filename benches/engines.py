#!/usr/bin/env python3
"""Measures proofline beside other engines on the same graph (graph.py), in one run.

Phases: `cold` (nothing done yet), `noop` (nothing to do), `dry` (what would run and why),
`change` (one source with other content: three nodes run), `touch` (one source with
another time: three nodes for engines that go by time). Tools take turns, every second
round in reverse order; a figure is the median of its rounds. CPU is user and system time
of the tool and of all that it started.

A tool whose cold run is hopeless at this size gets a state made by hand (marked so) and is
measured on that; its cold run is measured at a smaller size. A tool that can't be had is
reported as absent. Everything lies under target/bench/.

usage: engines.py [--tools A,B] [--nodes N] [--large N] [--rounds K] [--quick]
"""

import argparse
import hashlib
import os
import re
import shutil
import sys
import time

import graph
import measure

JOBS = "2"
# Most seconds that one run may take, and that all rounds of one figure may take.
CAP = 900.0
PATIENCE = 60.0
# Cold runs of these take minutes per thousand nodes.
SLOW = {"snakemake": 1001, "dvc": 101}
INSTALLED = {"doit": ["doit"], "snakemake": ["snakemake"], "dvc": ["dvc"]}
# A node of ours has no file of its own whose time could tell what ran.
RAN = re.compile(rb"(\d+) of \d+ nodes executed")


class Tool:
    """How one tool is called; None for a phase that it doesn't have."""

    def __init__(self, name):
        self.name = name
        self.absent = None
        self.version = ""
        program = shutil.which(name)
        if name in INSTALLED:
            folder = measure.venv(name, INSTALLED[name])
            program = folder and os.path.join(folder, name)
        elif name == "proofline":
            program = measure.proofline()
        elif name == "floor":
            program = shutil.which("xargs")
        if program is None:
            self.absent = f"{name} could not be installed" if name in INSTALLED else f"{name} is not on PATH"
            self.commands = {}
            return
        self.version = measure.version([program, "--version"]) or ""
        store = ["--store", ".proofline"]
        self.commands = {
            "floor": lambda p: {"cold": ["sh", "-c", f"{p} -P{JOBS} -d '\\n' -n1 /bin/sh -c < cmds; cat b/*.txt > agg.txt"]},
            "ninja": lambda p: {"cold": [p, f"-j{JOBS}", "--quiet"], "noop": [p, f"-j{JOBS}"], "dry": [p, "-n", "-d", "explain"]},
            "make": lambda p: {"cold": [p, "-s", f"-j{JOBS}"], "noop": [p, f"-j{JOBS}"], "dry": [p, "-n", "--debug=b"]},
            "doit": lambda p: {"cold": [p, "-n", JOBS], "noop": [p, "-n", JOBS], "dry": [p, "list", "--all", "--status"]},
            "snakemake": lambda p: {"cold": [p, "--cores", JOBS, "-q", "all"], "noop": [p, "--cores", JOBS, "-q", "all"], "dry": [p, "-n"]},
            "dvc": lambda p: {"cold": [p, "repro", "-q"], "noop": [p, "repro", "-q"], "dry": [p, "status", "--json"]},
            "proofline": lambda p: {"cold": [p, "run", "--trust", "--jobs", JOBS, *store], "noop": [p, "run", "--jobs", JOBS, *store], "dry": [p, "plan", *store]},
        }[name](program)

    def argv(self, phase):
        return self.commands.get(phase, self.commands.get("noop") if phase in ("change", "touch") else None)


def made(folder):
    """Files that nodes wrote, with their times."""
    out = {}
    for name in ("a", "b"):
        with os.scandir(f"{folder}/{name}") as entries:
            out |= {f"{name}/{entry.name}": entry.stat().st_mtime_ns for entry in entries}
    if os.path.exists(f"{folder}/agg.txt"):
        out["agg.txt"] = os.stat(f"{folder}/agg.txt").st_mtime_ns
    return out


def fabricate(tool, nodes, folder):
    """The files and the state that a cold run leaves, made without running a node."""
    chains = range(1, nodes // 2 + 1)
    for i in chains:
        for above, name in (("src", "a"), ("a", "b")):
            shutil.copyfile(f"{folder}/{above}/{i}.txt", f"{folder}/{name}/{i}.txt")
    with open(f"{folder}/agg.txt", "w") as last:
        # In the order of the shell's `b/*.txt`.
        for name in sorted(f"{i}.txt" for i in chains):
            with open(f"{folder}/b/{name}") as text:
                last.write(text.read())
    if tool.name == "snakemake":
        # Its own way to make a state: outputs count as made now.
        done = measure.run([*tool.argv("cold"), "--touch"], folder, f"{folder}.touch.log", CAP)
        return done["code"] == 0

    def entry(path):
        with open(f"{folder}/{path}", "rb") as file:
            data = file.read()
        digest = hashlib.md5(data).hexdigest()
        kept = f"{folder}/.dvc/cache/files/md5/{digest[:2]}/{digest[2:]}"
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(kept, "wb") as file:
            file.write(data)
        return f"    - path: {path}\n      hash: md5\n      md5: {digest}\n      size: {len(data)}\n"

    def stage(name, command, deps, out):
        return (f"  {name}:\n    cmd: {command}\n    deps:\n" + "".join(map(entry, deps)) + "    outs:\n" + entry(out))

    lock = ["schema: '2.0'\nstages:\n"]
    for above, name in (("src", "a"), ("a", "b")):
        for i in chains:
            files = f"{above}/{i}.txt", f"{name}/{i}.txt"
            lock.append(stage(f"{name}@{i}", f"cat {files[0]} > {files[1]}", files[:1], files[1]))
    deps = [f"b/{i}.txt" for i in chains]
    lock.append(stage("agg", "cat b/*.txt > agg.txt", deps, "agg.txt"))
    with open(f"{folder}/dvc.lock", "w") as file:
        file.write("".join(lock))
    return True


class Bench:
    def __init__(self, tools, out):
        self.tools = tools
        self.log = measure.Log(out)
        self.spent = {}

    def once(self, tool, phase, nodes, note=""):
        """Measures one run; whether it came to its end."""
        folder = f"{measure.WORK}/graph/{tool.name}-{nodes}"
        if phase in ("change", "touch"):
            # Engines that go by time need another one.
            time.sleep(1.1 if tool.name != "proofline" else 0.05)
            if phase == "touch":
                os.utime(f"{folder}/src/1.txt")
            else:
                with open(f"{folder}/src/1.txt", "a") as file:
                    file.write(f"changed {time.time_ns()}\n")
        before = made(folder)
        log = f"{folder}.{phase}.log"
        row = measure.run(tool.argv(phase), folder, log, CAP)
        after = made(folder)
        ran = sum(1 for path, at in after.items() if before.get(path) != at)
        if tool.name == "proofline" and phase != "dry":
            with open(log, "rb") as file:
                ran = sum(int(number) for number in RAN.findall(file.read()))
        self.log.add(tool=tool.name, phase=phase, nodes=nodes, ran=ran, note=note,
                     load=round(os.getloadavg()[0], 2), **row)
        key = (tool.name, phase, nodes)
        self.spent[key] = self.spent.get(key, 0.0) + row["wall"]
        print(f"{tool.name:10} {phase:6} {nodes:7} nodes  cpu {row['cpu']:9.4f} s  wall {row['wall']:9.4f} s  "
              f"ran {ran}{'  capped' if row['capped'] else ''}", file=sys.stderr)
        return row["code"] == 0

    def rounds(self, tools, phase, nodes, times, note=""):
        """Tools take turns; one that has used up its patience sits out."""
        for turn in range(times):
            for tool in tools if turn % 2 == 0 else reversed(tools):
                if tool.argv(phase) and self.spent.get((tool.name, phase, nodes), 0.0) < PATIENCE:
                    self.once(tool, phase, nodes, note)

    def cold(self, tools, nodes, times):
        """Cold runs; those that a bound is set for take all turns, the others one."""
        bound = [tool for tool in tools if tool.name in ("floor", "ninja", "proofline")]
        for turn in range(times):
            turning = tools if turn == 0 else bound
            for tool in turning if turn % 2 == 0 else reversed(turning):
                graph.write(tool.name, nodes, f"{measure.WORK}/graph/{tool.name}-{nodes}")
                self.once(tool, "cold", nodes)

    def memory(self, tool, phase, nodes):
        folder = f"{measure.WORK}/graph/{tool.name}-{nodes}"
        peak = measure.memory(tool.argv(phase), folder, CAP)
        if peak is not None:
            self.log.add(tool=tool.name, phase=phase, nodes=nodes, peak_mb=peak)


def figure(bench, tool, phase, nodes, what="cpu"):
    """Median of a figure over good runs."""
    rows = [row for row in bench.log.of(tool=tool, phase=phase, nodes=nodes) if row.get("code") == 0]
    return measure.median(row[what] for row in rows)


def shown(bench, tools, nodes, phase):
    """Rows of a phase's table."""
    rows = []
    ours = figure(bench, "proofline", phase, nodes)
    for tool in tools:
        if tool.absent:
            rows.append([tool.name, nodes, f"absent: {tool.absent}", "", "", "", "", "", ""])
            continue
        if not tool.argv(phase):
            continue
        for size in sorted({row["nodes"] for row in bench.log.of(tool=tool.name, phase=phase)}):
            runs = [row for row in bench.log.of(tool=tool.name, phase=phase, nodes=size) if "cpu" in row]
            good = [row for row in runs if row["code"] == 0]
            if not good:
                rows.append([tool.name, size, f"failed or over {CAP:.0f} s", "", "", "", 0, "", ""])
                continue
            cpu, wall = (measure.median(row[key] for row in good) for key in ("cpu", "wall"))
            spread = f"{measure.seconds(min(r['cpu'] for r in good))} to {measure.seconds(max(r['cpu'] for r in good))}"
            peak = measure.median(r["peak_mb"] for r in bench.log.of(tool=tool.name, phase=phase, nodes=size) if "peak_mb" in r)
            ratio = f"{cpu / ours:.2f}" if ours and size == nodes else ""
            ran = "/".join(str(n) for n in sorted({row["ran"] for row in good}))
            rows.append([tool.name + (f" ({good[0]['note']})" if good[0]["note"] else ""), size, measure.seconds(cpu), spread,
                         ratio, measure.seconds(wall), len(good), ran, f"{peak:.0f} MB" if peak else ""])
    head = ["tool", "nodes", "CPU", "from, to", "CPU / ours", "wall", "runs", "nodes run", "peak memory"]
    return measure.table(head, rows)


def bars(bench, nodes, large):
    """What is promised, and what was measured."""
    cpu = lambda tool, phase, size=nodes: figure(bench, tool, phase, size)
    rows = []

    def bar(what, value, most, least=False):
        if value is None:
            rows.append([what, "not measured", "", ""])
            return
        good = value >= most if least else value <= most
        sign = "≥" if least else "≤"
        rows.append([what, f"{value:.2f}", f"{sign} {most}", "holds" if good else "MISSED"])

    over = lambda a, b: a / b if a is not None and b else None
    bar("no-op: CPU over ninja's", over(cpu("proofline", "noop"), cpu("ninja", "noop")), 1.5)
    for tool in ("make", "doit", "snakemake", "dvc"):
        bar(f"no-op: {tool}'s CPU over ours", over(cpu(tool, "noop"), cpu("proofline", "noop")), 20, least=True)
    bar("dry run with reasons: CPU over `ninja -n -d explain`", over(cpu("proofline", "dry"), cpu("ninja", "dry")), 2)
    bar("one changed source: CPU over ninja's", over(cpu("proofline", "change"), cpu("ninja", "change")), 4)
    bar("cold run: CPU over the bare loop of shells", over(cpu("proofline", "cold"), cpu("floor", "cold")), 1.3)
    if large:
        bar(f"no-op of {large:,} nodes: CPU over our own of {nodes:,}",
            over(cpu("proofline", "noop", large), cpu("proofline", "noop")), 12)
    for size, most in ((nodes, 60), (large, 300)):
        peak = measure.median(row["peak_mb"] for row in bench.log.of(tool="proofline", phase="noop", nodes=size) if "peak_mb" in row)
        if size:
            bar(f"no-op of {size:,} nodes: peak memory, MB", peak, most)
    return measure.table(["bar", "measured", "bound", ""], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(graph.TOOLS), help="which, separated by commas")
    parser.add_argument("--nodes", type=int, default=10001)
    parser.add_argument("--large", type=int, default=100001, help="size of the large no-op of ours; 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of the short phases")
    parser.add_argument("--cold-rounds", type=int, default=3)
    parser.add_argument("--phases", default="cold,noop,dry,change,touch")
    parser.add_argument("--out", default=f"{measure.WORK}/engines.jsonl")
    parser.add_argument("--quick", action="store_true", help="1,001 nodes, 5 rounds, one cold run, nothing large")
    asked = parser.parse_args()
    if asked.quick:
        asked.nodes, asked.large, asked.rounds, asked.cold_rounds = 1001, 0, 5, 1
    unknown = [name for name in asked.tools.split(",") if name not in graph.TOOLS]
    if unknown:
        parser.error(f"no tool {', '.join(unknown)}; there are {', '.join(graph.TOOLS)}")
    phases = asked.phases.split(",")
    tools = [Tool(name) for name in asked.tools.split(",")]
    there = [tool for tool in tools if not tool.absent]
    facts = measure.machine()
    bench = Bench(tools, asked.out)
    bench.log.add(machine=facts, versions={tool.name: tool.version for tool in there},
                  absent={tool.name: tool.absent for tool in tools if tool.absent})
    nodes = asked.nodes
    quick = [tool for tool in there if nodes <= SLOW.get(tool.name, nodes)]
    bench.cold(quick, nodes, asked.cold_rounds if "cold" in phases else 1)
    ready = list(quick)
    for tool in there:
        if tool not in quick:
            if "cold" in phases:
                bench.cold([tool], SLOW[tool.name], 1)
            folder = f"{measure.WORK}/graph/{tool.name}-{nodes}"
            graph.write(tool.name, nodes, folder)
            if fabricate(tool, nodes, folder):
                ready.append(tool)
    ready.sort(key=there.index)
    for phase in ("noop", "dry", "change", "touch"):
        if phase in phases:
            for tool in ready:
                # The first run after a cold one settles caches and is not counted.
                if phase == "noop" and tool in quick and tool.argv(phase):
                    measure.run(tool.argv(phase), f"{measure.WORK}/graph/{tool.name}-{nodes}", cap=CAP)
            bench.rounds([t for t in ready if t in quick], phase, nodes, asked.rounds)
            bench.rounds([t for t in ready if t not in quick], phase, nodes, 1, "state made by hand")
            for tool in ready:
                if phase in ("noop", "dry") and tool.argv(phase) and tool in quick:
                    bench.memory(tool, phase, nodes)
    ours = [tool for tool in there if tool.name == "proofline"]
    if asked.large and ours:
        bench.cold(ours, asked.large, 1)
        bench.rounds(ours, "noop", asked.large, asked.rounds)
        bench.memory(ours[0], "noop", asked.large)
    print("Machine: {cpu}, {processors} processors, kernel {kernel}; load before the run {load}; "
          "a 4 KiB write with fsync takes {fsync_ms} ms.".format(**facts))
    print("Versions: " + "; ".join(f"{t.name} {t.version}" if t.name not in t.version else t.version for t in there) + ".\n")
    for phase in phases:
        print(f"**{phase}**\n\n{shown(bench, tools, nodes, phase)}\n")
    print(f"**Bars**\n\n{bars(bench, nodes, asked.large)}")


if __name__ == "__main__":
    main()
