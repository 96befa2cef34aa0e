"""outline.py FOLDER ENDING: writes outline.json, the first and last line of every function."""

import json
import re
import sys
from pathlib import Path


def last_line_by_indent(lines, start):
    """A Python function ends before the next line that is indented no deeper."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    last = start
    for at in range(start + 1, len(lines)):
        text = lines[at]
        if not text.strip():
            continue
        closes_arguments = text.strip().startswith(")")
        if len(text) - len(text.lstrip()) <= indent and not closes_arguments:
            break
        last = at
    return last


def last_line_by_brace(lines, start):
    """Elsewhere it ends where its braces are balanced. Braces in texts are counted too: good enough here."""
    depth, opened = 0, False
    for at in range(start, len(lines)):
        for char in lines[at]:
            if char == "{":
                depth, opened = depth + 1, True
            elif char == "}":
                depth -= 1
        if opened and depth <= 0:
            return at
        if not opened and lines[at].rstrip().endswith(";"):
            return at  # declared, not defined
    return len(lines) - 1


def main():
    folder, ending = sys.argv[1:]
    rules = json.loads(Path("examples/custom/languages.json").read_text(encoding="utf-8"))[ending]
    pattern = re.compile(rules["function"])
    ends = {"indent": last_line_by_indent, "brace": last_line_by_brace}[rules["ends"]]
    functions = []
    for path in sorted(Path(folder).rglob(f"*.{ending}")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(lines):
            found = pattern.match(line)
            if not found:
                continue
            name = next(group for group in reversed(found.groups()) if group)
            functions.append(
                {"file": path.as_posix(), "name": name, "first": at + 1, "last": ends(lines, at) + 1}
            )
    with open("outline.json", "w", encoding="utf-8") as out:
        json.dump({"language": ending, "functions": functions}, out, indent=1)


main()
