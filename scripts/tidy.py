#!/usr/bin/env python3
"""Runs clang-tidy over our sources: scripts/tidy.py BUILD_FOLDER

A file that was clean is not looked at again while it, everything it includes and .clang-tidy stay the
same: the key is the hash of its preprocessed text, kept in the cache folder outside the tree.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus" / "tidy"
TIDY = "clang-tidy-16"


def preprocessed(entry):
    words = [w for w in shlex.split(entry["command"])]
    if words[0].endswith("ccache"):
        words = words[1:]
    words = words[: words.index("-o")] + words[words.index("-o") + 2 :]
    words = [w for w in words if w not in ("-c", "-MD")]
    words += ["-E", "-P"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def check(build, entry, settings):
    text = preprocessed(entry)
    stamp = None
    if text is not None:
        stamp = CACHE / hashlib.sha256(settings + text).hexdigest()
        if stamp.exists():
            stamp.touch()
            return True, ""
    done = subprocess.run(
        [TIDY, "-p", str(build), "--quiet", "--warnings-as-errors=*", entry["file"]],
        capture_output=True, text=True, check=False)
    if done.returncode == 0 and stamp is not None:
        stamp.touch()
    return done.returncode == 0, done.stdout


def main():
    build = pathlib.Path(sys.argv[1])
    CACHE.mkdir(parents=True, exist_ok=True)
    settings = (ROOT / ".clang-tidy").read_bytes()
    entries = [e for e in json.loads((build / "compile_commands.json").read_text())
               if pathlib.Path(e["file"]).is_relative_to(ROOT)
               and not pathlib.Path(e["file"]).is_relative_to(ROOT / "build")]
    unique = list({e["file"]: e for e in entries}.values())
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for ok, text in pool.map(lambda e: check(build, e, settings), unique):
            if not ok:
                failed += 1
                print(text)
    print(f"clang-tidy: {len(unique) - failed} of {len(unique)} files in order")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
