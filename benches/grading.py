#!/usr/bin/env python3
"""Measures grading in one run.

sense: all runs of a folder of the Sense benchmark scored by its rules, without a checkout, beside a
Python program that only parses the same transcripts. CPU of whole processes; what a process costs
without a round is taken off.

citations: so many citations of the files of Django looked up, first and again.

usage: grading.py --sense DIR [--rounds K] [--citations N]
"""

import argparse
import glob
import json
import subprocess
import sys

import measure
import retrieval

PARSE = """
import json, sys, time
clock = time.process_time()
for path in sys.argv[2:]:
    for _ in range(int(sys.argv[1])):
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    json.loads(line)
                except ValueError:
                    pass
print(time.process_time() - clock)
"""


def program():
    """Path of the bench program benches/grade.rs, built."""
    command = ["cargo", "bench", "--bench", "grade", "--no-run", "--locked", "--message-format=json"]
    done = subprocess.run(command, cwd=measure.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if row.get("reason") == "compiler-artifact" and row["target"]["name"] == "grade" and row.get("executable"):
            return row["executable"]
    sys.exit("cargo built no bench `grade`")


def cpu(bench, kind, folder, rounds):
    """CPU seconds of a whole process, and what it said."""
    log = f"{measure.WORK}/grading.log"
    row = measure.run([bench, kind, folder, str(rounds)], measure.WORK, log, 900.0)
    with open(log) as file:
        said = json.loads(file.read().splitlines()[-1])
    return row["cpu"], said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sense", help="folder with scenarios/ and results/ of the Sense benchmark")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--citations", type=int, default=50_000)
    asked = parser.parse_args()
    facts = measure.machine()
    bench = program()
    print("Machine: {cpu}, {processors} processors, kernel {kernel}; load before the run {load}.\n".format(**facts))
    rows = []
    if asked.sense:
        paths = sorted(glob.glob(f"{asked.sense}/results/**/transcript.json", recursive=True))
        idle, said = cpu(bench, "sense", asked.sense, 0)
        for kind, words in (("sense", "scored by profile `sense`"), ("parse", "only read by it")):
            spent, _ = cpu(bench, kind, asked.sense, asked.rounds)
            rows.append([words, (spent - idle) / asked.rounds])
        done = subprocess.run([sys.executable, "-c", PARSE, str(asked.rounds), *paths], check=True, stdout=subprocess.PIPE, text=True)
        rows.append(["parsed by Python's json, nothing else", float(done.stdout) / asked.rounds])
        each = 400_000 / said["bytes"]
        table = [[what, measure.seconds(seconds), f"{seconds * each * 1000:.2f} ms"] for what, seconds in rows]
        head = [f"{said['transcripts']} transcripts, {said['bytes'] / 1e6:.1f} MB", "CPU", "per 400 KB"]
        print(f"**sense**\n\n{measure.table(head, table)}\n")
    folder = retrieval.fetch()
    spent, said = cpu(bench, "citations", folder, asked.citations)
    table = [[said["files"], said["citations"], said["grounded"], f"{said['first_ms'] / 1000:.2f} s", f"{said['again_ms'] / 1000:.2f} s", measure.seconds(spent)]]
    print(f"**citations**, Django\n\n{measure.table(['files', 'citations', 'grounded', 'first', 'again', 'CPU in all'], table)}\n")
    bars = []
    if asked.sense:
        ours = rows[0][1] * each * 1000
        bars.append(["sense: CPU per transcript of 400 KB, ms", f"{ours:.2f}", "≤ 3", "holds" if ours <= 3 else "MISSED"])
    again = said["again_ms"] / 1000
    bars.append([f"{asked.citations:,} citations after the tree is indexed, s", f"{again:.2f}", "< 2", "holds" if again < 2 else "MISSED"])
    print(f"**Bars**\n\n{measure.table(['bar', 'measured', 'bound', ''], bars)}")


if __name__ == "__main__":
    main()
