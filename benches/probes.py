#!/usr/bin/env python3
"""Probes of what an engine promises, on the built program: what a killed run leaves, whether equal
outputs cut off, whether two runs share work, what a hand-edited output does, what a typo says.

P1  no partial output is accepted after kill -9
P2  early cutoff: an output that comes out the same runs nothing below it
P3  two runs at once run three tasks three times
P4  a hand-edited output is never taken for what the node made
P6  after kill -9 exactly what was not finished is executed again
P7  a typo is shown with file, line, column and a caret

tests/probes.rs holds the same in CI. Everything lies under target/bench/probes/.

usage: probes.py [P1,P2,...]
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import measure

NODE = """
[stage.{name}]
kind    = "command"
run     = ["/bin/sh", "-c", {script}]
inputs  = {inputs}
needs   = {needs}
outputs = {{ text = {{ path = "{name}.txt" }} }}
"""


class Project:
    """A project with nodes (name, inputs, needs, script)."""

    def __init__(self, name, nodes, files):
        self.folder = f"{measure.WORK}/probes/{name}"
        shutil.rmtree(self.folder, ignore_errors=True)
        text = 'format = 1\nname = "probe"\n' + "".join(
            NODE.format(name=node, script=json.dumps(script), inputs=json.dumps(inputs), needs=json.dumps(needs))
            for node, inputs, needs, script in nodes)
        for path, content in {".git/.keep": "", "pipelines/main.toml": text, **files}.items():
            self.write(path, content)

    def write(self, path, content):
        path = f"{self.folder}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)

    def start(self, *words):
        return subprocess.Popen([measure.PROOFLINE, *words, "--store", ".proofline"], cwd=self.folder, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def go(self, *words):
        """Exit code, standard output, standard error."""
        child = self.start(*words)
        out, err = child.communicate(timeout=120)
        return child.returncode, out, err

    def run(self):
        """How many nodes a run executed; it must end well."""
        code, out, err = self.go("run", "--trust", "--json", "--jobs", "2")
        if code != 0:
            raise AssertionError(f"the run ended with {code}: {out} {err}")
        return json.loads(out)["nodes"]["executed"]

    def shown(self, node):
        return self.go("show", node, "--part", "text")[1]

    def events(self, kind):
        """Events of a kind in all journals."""
        count = 0
        runs = f"{self.folder}/.proofline/runs"
        for run in os.listdir(runs) if os.path.isdir(runs) else []:
            path = f"{runs}/{run}/journal.jsonl"
            if os.path.exists(path):
                with open(path) as file:
                    count += file.read().count(f'"type":"{kind}"')
        return count

    def killed(self, kind, number):
        """Starts a run and kills the engine with SIGKILL when so many events have been written."""
        child = self.start("run", "--trust", "--json", "--jobs", "2")
        end = time.monotonic() + 60
        while self.events(kind) < number and time.monotonic() < end and child.poll() is None:
            time.sleep(0.01)
        time.sleep(0.3)
        child.send_signal(signal.SIGKILL)
        child.communicate()


def p1():
    project = Project("p1", [("a", ["s"], [], "echo partial > a.txt; sleep 3; echo full >> a.txt")], {"s": "1"})
    project.killed("started", 1)
    executed, shown = project.run(), project.shown("a")
    return executed == 1 and shown == "partial\nfull\n", f"executed again: {executed}, output: {shown.split()}"


def p2():
    nodes = [("a", ["s"], [], "wc -l < s > a.txt"), ("b", [], ["a"], "cat in/a/text > b.txt")]
    project = Project("p2", nodes, {"s": "x\n"})
    project.run()
    project.write("s", "y\n")
    executed = project.run()
    return executed == 1, f"after a change with the same output: {executed} of 2 nodes ran"


def p3():
    project = Project("p3", [(f"n{i}", ["s"], [], f"sleep 2; echo {i} > n{i}.txt") for i in range(3)], {"s": "1"})
    runs = [project.start("run", "--trust", "--json", "--jobs", "3") for _ in range(2)]
    codes = [(run.communicate(timeout=120), run.returncode)[1] for run in runs]
    started = project.events("started")
    return codes == [0, 0] and started == 3, f"exit codes {codes}, three tasks were started {started} times"


def p4():
    project = Project("p4", [("a", ["s"], [], "cat s > a.txt")], {"s": "as the node made it\n" * 9})
    project.run()
    project.write("a.txt", "TAMPERED\n")
    beside, kept = project.run(), project.shown("a")
    packs = f"{project.folder}/.proofline/packs"
    for name in os.listdir(packs):
        with open(f"{packs}/{name}", "rb") as file:
            data = file.read()
        with open(f"{packs}/{name}", "wb") as file:
            file.write(data.replace(b"as the node made it", b"as somebody made it"))
    code, damaged, _ = project.go("show", "a", "--part", "text")
    verified = project.go("store", "verify")[0]
    again, shown = project.run(), project.shown("a")
    good = beside == 0 and kept == shown and "somebody" not in damaged + shown and code != 0 and verified != 0 and again == 1
    return good, f"a file beside: {beside} ran; damaged in the store: show ends with {code}, verify with {verified}, then {again} ran"


def p6():
    project = Project("p6", [(f"n{i}", ["s"], [], f"sleep 0.3; echo {i} > n{i}.txt") for i in range(24)], {"s": "1"})
    project.killed("done", 10)
    done = project.events("done")
    executed = project.run()
    return executed == 24 - done, f"{done} of 24 were done; executed again: {executed} (ideal {24 - done})"


def p7():
    project = Project("p7", [("a", ["s"], [], "cat s > a.txt")], {"s": "1"})
    with open(f"{project.folder}/pipelines/main.toml") as file:
        text = file.read()
    project.write("pipelines/main.toml", text.replace("inputs", "inptus"))
    code, _, said = project.go("check", "pipelines/main.toml")
    good = code == 1 and "pipelines/main.toml:7:1" in said and "^" in said and "did you mean `inputs`" in said
    return good, f"exit code {code}:\n{said.rstrip()}"


PROBES = {"P1": p1, "P2": p2, "P3": p3, "P4": p4, "P6": p6, "P7": p7}


def main():
    asked = sys.argv[1].split(",") if len(sys.argv) > 1 else list(PROBES)
    if not set(asked) <= set(PROBES):
        sys.exit(__doc__)
    measure.proofline()
    failed = 0
    for name in asked:
        try:
            good, words = PROBES[name]()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            good, words = False, str(error)
        failed += not good
        print(f"{name} {'holds' if good else 'FAILED'}: {words}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
