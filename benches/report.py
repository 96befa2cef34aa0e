#!/usr/bin/env python3
"""Runs the benches and writes their tables into docs/performance.md.

usage: report.py [engines] [probes] [retrieval] [-- OPTIONS]     options go to each of them
"""

import re
import subprocess
import sys

import measure

PAGE = f"{measure.ROOT}/docs/performance.md"
PARTS = ("engines", "probes", "retrieval")


def written(page, part, text):
    """The page with the text of a part in place of what stood there."""
    pattern = re.compile(rf"(<!-- {part}: [^\n]*-->\n).*?(\n<!-- end -->)", re.S)
    found, times = pattern.subn(lambda marks: marks[1] + text + marks[2], page)
    if times != 1:
        sys.exit(f"{PAGE} has no place for {part}")
    return found


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    asked, options = words[:at] or list(PARTS), words[at + 1:]
    if not set(asked) <= set(PARTS):
        sys.exit(__doc__)
    measure.proofline()
    failed = []
    for part in asked:
        command = [sys.executable, f"{measure.ROOT}/benches/{part}.py", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        text = done.stdout.rstrip()
        if done.returncode != 0:
            failed.append(part)
        if part == "probes":
            text = f"```text\n{text}\n```"
        elif done.returncode != 0:
            continue
        with open(PAGE) as file:
            page = file.read()
        with open(PAGE, "w") as file:
            file.write(written(page, part, text))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
