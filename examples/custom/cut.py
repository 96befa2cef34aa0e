"""cut.py wN: writes cuts.tsv, one line of sums over the windows of N lines:
functions, functions inside a single window, lines of functions, lines of the windows that hold them, windows, comment lines.
"""

import json
import sys
from pathlib import Path


def main():
    length = int(sys.argv[1].removeprefix("w"))
    outline = json.loads(Path("in/outline/outline").read_text(encoding="utf-8"))
    sizes, comments = {}, 0
    for row in Path("in/count/listing").read_text(encoding="utf-8").splitlines():
        path, lines, comment_lines = row.split("\t")
        sizes[path] = int(lines)
        comments += int(comment_lines)
    functions = whole = wanted = read = 0
    for function in outline["functions"]:
        first = (function["first"] - 1) // length
        last = (function["last"] - 1) // length
        functions += 1
        whole += first == last
        wanted += function["last"] - function["first"] + 1
        # What a retriever hands over: every window that the function touches.
        read += min((last + 1) * length, sizes[function["file"]]) - first * length
    windows = sum(-(-size // length) for size in sizes.values())
    sums = [functions, whole, wanted, read, windows, comments]
    Path("cuts.tsv").write_text("\t".join(map(str, sums)) + "\n", encoding="utf-8")


main()
