#!/usr/bin/env python3
"""What the default rules and those of the Sense benchmark take for citations, on its published runs.

Prints a table with a row per run: citations by their rule, by ours, those that both have (same file and
first line or symbol), and what only one of them has.

usage: citations.py DIR      a folder with scenarios/ and results/ of the Sense benchmark
"""

import json
import os
import subprocess
import sys
import tempfile

import measure


def rows(program, folder, store, profile):
    """Citations of each answer: file and locator."""
    subprocess.run([program, "run", "regrade", "--set", f"profile={profile}", "--store", store], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = subprocess.run([program, "report", "latest", "--rows", "--store", store], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    out = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        out[row["answer"]] = {(c["file"], first(c["locator"])) for c in row["citations"]}
    return out


def first(locator):
    """What both rules have of a locator: the first line, or the last word of a symbol."""
    line = locator.split("-")[0]
    if line.isdigit():
        return line
    words = [word for word in "".join(c if c.isalnum() or c == "_" else " " for c in locator).split()]
    return words[-1] if words else locator


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = measure.proofline()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/.git")
        store = f"{folder}/.proofline"
        subprocess.run([program, "import", "sense", os.path.abspath(sys.argv[1]), "--store", store], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        theirs, ours = (rows(program, folder, store, profile) for profile in ("sense", "default"))
    table, sums = [], [0] * 5
    for answer in sorted(theirs):
        a, b = theirs[answer], ours.get(answer, set())
        counts = [len(a), len(b), len(a & b), len(b - a), len(a - b)]
        sums = [x + y for x, y in zip(sums, counts)]
        table.append([f"`{answer}`", *counts])
    table.append(["all", *sums])
    print(measure.table(["run", "their rule", "ours", "both", "only ours", "only theirs"], table))


if __name__ == "__main__":
    main()
