#!/usr/bin/env python3
"""Writes one fan-out, fan-in project for one tool.

The graph is the same for every tool: C = N // 2 chains, 2 * C + 1 nodes.

    src/I.txt --a--> a/I.txt --b--> b/I.txt --+
                                              +--agg--> agg.txt

Every node is one `/bin/sh -c 'cat IN > OUT'`; the last one is `cat b/*.txt > agg.txt`.
`floor` is no engine at all: the same shells, started one after the other by xargs.
proofline's nodes write into its store; what they write and how often is the same.

usage: graph.py TOOL N DIR
"""

import os
import shutil
import sys


def floor(chains):
    a = (f"cat src/{i}.txt > a/{i}.txt\n" for i in chains)
    b = (f"cat a/{i}.txt > b/{i}.txt\n" for i in chains)
    return {"cmds": "".join([*a, *b])}


def ninja(chains):
    out = ["rule cat", "  command = cat $in > $out", "rule agg", "  command = cat b/*.txt > $out"]
    for i in chains:
        out += [f"build a/{i}.txt: cat src/{i}.txt", f"build b/{i}.txt: cat a/{i}.txt"]
    out += ["build agg.txt: agg " + " ".join(f"b/{i}.txt" for i in chains), "default agg.txt", ""]
    return {"build.ninja": "\n".join(out)}


def make(chains):
    last = " ".join(f"b/{i}.txt" for i in chains)
    return {"Makefile": f"""B := {last}
agg.txt: $(B)
\tcat b/*.txt > $@
b/%.txt: a/%.txt
\tcat $< > $@
a/%.txt: src/%.txt
\tcat $< > $@
.SECONDARY:
"""}


def doit(chains):
    return {"dodo.py": f"""DOIT_CONFIG = dict(verbosity=0)
CHAINS = range({chains.start}, {chains.stop})
def task_a():
    for i in CHAINS:
        yield dict(name=str(i), actions=[f"cat src/{{i}}.txt > a/{{i}}.txt"],
                   file_dep=[f"src/{{i}}.txt"], targets=[f"a/{{i}}.txt"])
def task_b():
    for i in CHAINS:
        yield dict(name=str(i), actions=[f"cat a/{{i}}.txt > b/{{i}}.txt"],
                   file_dep=[f"a/{{i}}.txt"], targets=[f"b/{{i}}.txt"])
def task_agg():
    return dict(actions=["cat b/*.txt > agg.txt"],
                file_dep=[f"b/{{i}}.txt" for i in CHAINS], targets=["agg.txt"])
"""}


def snakemake(chains):
    return {"Snakefile": f"""CHAINS = range({chains.start}, {chains.stop})
rule agg:
    input: expand("b/{{i}}.txt", i=CHAINS)
    output: "agg.txt"
    shell: "cat b/*.txt > {{output}}"
rule b:
    input: "a/{{i}}.txt"
    output: "b/{{i}}.txt"
    shell: "cat {{input}} > {{output}}"
rule a:
    input: "src/{{i}}.txt"
    output: "a/{{i}}.txt"
    shell: "cat {{input}} > {{output}}"
"""}


def dvc(chains):
    values = "[" + ",".join(str(i) for i in chains) + "]"
    stage = """  {name}:
    matrix:
      i: {values}
    cmd: cat {above}/${{item.i}}.txt > {name}/${{item.i}}.txt
    deps:
    - {above}/${{item.i}}.txt
    outs:
    - {name}/${{item.i}}.txt
"""
    stages = [stage.format(name=name, above=above, values=values) for name, above in (("a", "src"), ("b", "a"))]
    deps = "".join(f"    - b/{i}.txt\n" for i in chains)
    last = f"  agg:\n    cmd: cat b/*.txt > agg.txt\n    deps:\n{deps}    outs:\n    - agg.txt\n"
    config = "[core]\n    no_scm = True\n    analytics = false\n    check_update = false\n"
    return {"dvc.yaml": "stages:\n" + "".join(stages) + last, ".dvc/config": config, ".dvc/tmp/.keep": ""}


def proofline(chains):
    values = ", ".join(f'"{i}"' for i in chains)
    # A mark of its own makes the folder a project, also below this repository.
    return {".git/.keep": "", "pipelines/main.toml": f"""format = 1
name   = "graph"

[axes]
i = [{values}]

[stage.a]
kind    = "command"
over    = ["i"]
run     = ["/bin/sh", "-c", "cat src/{{{{ i }}}}.txt > a.txt"]
inputs  = ["src/{{{{ i }}}}.txt"]
outputs = {{ text = {{ path = "a.txt" }} }}

[stage.b]
kind    = "command"
needs   = ["a"]
run     = ["/bin/sh", "-c", "cat in/a/text > b.txt"]
outputs = {{ text = {{ path = "b.txt" }} }}

[stage.agg]
kind    = "command"
needs   = ["b"]
over    = []
run     = ["/bin/sh", "-c", "cat in/b/*/text > agg.txt"]
outputs = {{ text = {{ path = "agg.txt" }} }}
"""}


TOOLS = {one.__name__: one for one in (floor, ninja, make, doit, snakemake, dvc, proofline)}


def write(tool, nodes, folder):
    """Writes the project of `tool` into `folder`, which is made anew."""
    chains = range(1, nodes // 2 + 1)
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("src", "a", "b"):
        os.makedirs(f"{folder}/{name}")
    texts = {f"src/{i}.txt": f"source {i}\n" for i in chains} | TOOLS[tool](chains)
    for name, text in texts.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in TOOLS or not sys.argv[2].isdigit():
        sys.exit(f"usage: graph.py {'|'.join(TOOLS)} N DIR")
    write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
