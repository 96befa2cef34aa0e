#!/usr/bin/env python3
"""Makes one project with the same graph for each of several tools.

With C = N // 2 chains there are 2*C + 1 nodes:

    src/<i>.txt --a_i--> a/<i>.txt --b_i--> b/<i>.txt --+
                                                        +--agg--> agg.txt

Every node is one shell with one `cat`; the last one reads all of b. A tool
that keeps files of its own (proofline) has the same nodes and edges, its
outputs just have no path in the project.

usage: graph.py TOOL N DIR     TOOL: ninja proofline
"""
import os
import shutil
import sys


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def sources(folder, chains):
    os.makedirs(f"{folder}/src")
    for i in range(chains):
        write(f"{folder}/src/{i}.txt", f"source {i}\n")


def ninja(folder, chains):
    for name in ("a", "b"):
        os.makedirs(f"{folder}/{name}")
    lines = ["rule cat", "  command = cat $in > $out", "rule agg", "  command = cat b/*.txt > $out"]
    for i in range(chains):
        lines += [f"build a/{i}.txt: cat src/{i}.txt", f"build b/{i}.txt: cat a/{i}.txt"]
    lines += ["build agg.txt: agg " + " ".join(f"b/{i}.txt" for i in range(chains)), "default agg.txt", ""]
    write(f"{folder}/build.ninja", "\n".join(lines))


def proofline(folder, chains):
    os.makedirs(f"{folder}/pipelines")
    values = ", ".join(f'"{i}"' for i in range(chains))
    write(
        f"{folder}/pipelines/main.toml",
        f"""format = 1
name = "graph"
about = "What does a pipeline of this size cost?"

[axes]
i = [{values}]

[stage.a]
kind = "command"
over = ["i"]
run = ["/bin/sh", "-c", "cat src/{{{{ i }}}}.txt > a.txt"]
inputs = ["src/{{{{ i }}}}.txt"]
outputs = {{ text = {{ path = "a.txt" }} }}

[stage.b]
kind = "command"
needs = ["a"]
over = ["i"]
run = ["/bin/sh", "-c", "cat in/a/text > b.txt"]
outputs = {{ text = {{ path = "b.txt" }} }}

[stage.agg]
kind = "command"
needs = ["b"]
over = []
run = ["/bin/sh", "-c", "cat in/b/*/text > agg.txt"]
outputs = {{ text = {{ path = "agg.txt" }} }}
""",
    )


TOOLS = {"ninja": ninja, "proofline": proofline}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in TOOLS:
        sys.exit(__doc__.strip().splitlines()[-1])
    tool, chains, folder = sys.argv[1], int(sys.argv[2]) // 2, sys.argv[3]
    shutil.rmtree(folder, ignore_errors=True)
    sources(folder, chains)
    TOOLS[tool](folder, chains)


if __name__ == "__main__":
    main()
