#!/usr/bin/env python3
"""What part f of tests/network.sh asserts about one JSON object that proofline printed."""

import argparse
import json
import pathlib
import sys

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--refused", type=int, help="so many were refused")
parser.add_argument("--some-refused", action="store_true")
parser.add_argument("--untrusted", action="store_true", help="some are not used")
parser.add_argument("--objects", type=int)
parser.add_argument("--records", type=int)
parser.add_argument("--more-records", type=int, help="at least so many")
parser.add_argument("--records-of", help="as many records as this run has nodes")
parser.add_argument("--times", type=int, default=1)
parser.add_argument("--notes", type=int)
parser.add_argument("--problems", type=int, help="of store verify")
parser.add_argument("--reused", type=int, help="nodes that a plan reuses")
parser.add_argument("--executed", help="stages of the nodes that a report's run executed")
args = parser.parse_args()
said = json.loads(pathlib.Path(args.file).read_text())


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"network test: {args.file}: {what} is {got}, expected {wanted}: {json.dumps(said)[:1500]}")


if args.refused is not None:
    expect("refusals", said["refusals"], args.refused)
if args.some_refused:
    expect("refused", said["refusals"] > 0 and all(one["why"] for one in said["refused"]), True)
    expect("exit", said["exit"], 3)
if args.untrusted:
    expect("untrusted", sum(one["records"] for one in said["untrusted"]) > 0, True)
for name in ("objects", "records"):
    if getattr(args, name) is not None:
        expect(name, said[name], getattr(args, name))
if args.more_records is not None:
    expect("enough records", said["records"] >= args.more_records, True)
if args.records_of:
    total = json.loads(pathlib.Path(args.records_of).read_text())["nodes"]["total"]
    expect("records", said["records"], total * args.times)
if args.notes is not None:
    expect("notes", len(said["notes"]), args.notes)
if args.problems is not None:
    expect("problems", len(said["problems"]), args.problems)
if args.reused is not None:
    expect("reused", sum(node["action"] == "reuse" for node in said["nodes"]), args.reused)
if args.executed:
    ran = sorted(node.split("[")[0] for node in said["run"]["executed"])
    expect("executed", ran, sorted(args.executed.split(",")))
if "refusals" in said:
    print(f"   {said['records']} records, {said['objects']} objects, {said['skipped']} there, {said['refusals']} refused")
