#!/usr/bin/env python3
"""Measures grading in one run.

sense: all runs of a folder of the Sense benchmark scored by its rules, without a checkout, beside a
Python program that only parses the same transcripts. CPU of whole processes; what a process costs
without a round is taken off.

memory: the program grades the same folder once, and with each run several times over: peak of one process.

citations: so many citations of the files of Django looked up, first and again.

usage: grading.py --sense DIR [--rounds K] [--citations N]
"""

import argparse
import glob
import json
import os
import shutil
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


def repeated(folder, times):
    """A copy of a folder of runs in which each run is there so many times."""
    out = f"{measure.WORK}/grading/{times}"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(f"{folder}/scenarios", f"{out}/bench/scenarios")
    for path in glob.glob(f"{folder}/results/**/transcript.json", recursive=True):
        run = os.path.dirname(path)
        home = os.path.relpath(run, folder).split("/run-")[0]
        for at in range(times):
            # Bytes of their own: equal ones would be graded once.
            copy = f"{out}/bench/{home}/run-{at + 1}"
            shutil.copytree(run, copy, dirs_exist_ok=True)
            os.chmod(copy, 0o755)
            for name in os.listdir(copy):
                os.chmod(f"{copy}/{name}", 0o644)
            with open(f"{copy}/transcript.json", "a") as file:
                file.write("\n" * at)
    return out


def memory(folder, times):
    """Answers, and peak MiB of importing and of grading them."""
    out = repeated(folder, times)
    os.makedirs(f"{out}/.git", exist_ok=True)
    tool = measure.proofline()
    answers = 0
    peaks = []
    for argv in ([tool, "import", "sense", "bench"], [tool, "run", "regrade", "--set", "profile=sense"]):
        peaks.append(measure.memory(argv, out))
    with open(f"{out}/imported/sense/recording.toml") as file:
        answers = file.read().count("[[answer]]")
    return [answers, *(f"{peak:.0f} MB" for peak in peaks)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sense", help="folder with scenarios/ and results/ of the Sense benchmark")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--citations", type=int, default=50_000)
    asked = parser.parse_args()
    asked.sense = asked.sense and os.path.abspath(asked.sense)
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
        table = [memory(asked.sense, times) for times in (1, 10)]
        print(f"**memory**\n\n{measure.table(['answers', 'peak of the import', 'peak of grading'], table)}\n")
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
