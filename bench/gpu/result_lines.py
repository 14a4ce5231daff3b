"""The lines of a file of results, each a JSON object. A truncated line is skipped."""

import json
import pathlib


def result_lines(path: pathlib.Path) -> list[dict]:
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            found.append(line)
    return found
