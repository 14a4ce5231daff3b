#!/usr/bin/env python3
"""Makes the table of values in the chart's README.md from the comments of values.yaml: scripts/checks/values.py [write]

Without `write` it fails if the table is an old one (`scripts/lint values`). A value's comment is above it or behind it. A value
without one has the comment of the value above it, and its row.
"""

import re
import sys

from process import ROOT

CHART = ROOT / "charts" / "janus-operator"
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"
LINE = re.compile(r"(?P<indent> *)(?P<name>\w+):(?: (?P<value>.+?))??(?: +# (?P<comment>.+))?$")


def rows(text):
    """[names, default, comment] of each row; [name, "", comment] of a group of values that has a comment."""
    found, above, path = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            above = []
        elif line.lstrip().startswith("#"):
            above.append(line.strip(" #"))
        else:
            match = LINE.match(line)
            if not match:
                raise SystemExit(f"values.yaml:{number}: want `name: value`, `name:` or a comment: {line}")
            path[len(match["indent"]) // 2:] = [match["name"]]
            name, value = ".".join(path), match["value"]
            comment = " ".join(filter(None, (*above, match["comment"])))
            above = []
            if comment:
                found.append([[name], value or "", comment])
            elif value is not None:
                before = found[-1][0][-1] if found else ""
                if before.split(".")[:-1] != path[:-1]:
                    raise SystemExit(f"values.yaml:{number}: {name} has no comment")
                found[-1][0].append(name)
    return found


def table(text):
    out = ["|value|default|meaning|", "|---|---|---|"]
    for names, default, comment in rows(text):
        default = f"`{default}`" if default and len(names) == 1 else ""
        out.append(f"|{', '.join(f'`{name}`' for name in names)}|{default}|{comment.replace('|', chr(92) + '|')}|")
    return "\n".join(out) + "\n"


def main():
    readme = CHART / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{readme}: no lines {BEGIN.strip()} and {END.strip()}")
    new = before + BEGIN + "\n" + table((CHART / "values.yaml").read_text()) + "\n" + END + after
    if sys.argv[1:] == ["write"]:
        readme.write_text(new)
    elif new != text:
        raise SystemExit(f"{readme} has an old table of values: scripts/checks/values.py write")


main()
