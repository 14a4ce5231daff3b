#!/usr/bin/env python3
"""Runs clang-tidy over our sources: scripts/tidy.py BUILD_FOLDER [FILE...]

A file that was clean is not checked again while it, everything that it includes and .clang-tidy stay the same. The key is
the hash of its preprocessed text. Results are kept in the cache folder, outside the tree.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "janus" / "tidy"
TIDY = "clang-tidy-16"


def preprocessed(entry):
    words = shlex.split(entry["command"])
    while "ccache" in pathlib.Path(words[0]).name:
        words = words[1:]
    words = words[: words.index("-o")] + words[words.index("-o") + 2 :]
    words = [w for w in words if w not in ("-c", "-MD")]
    words += ["-E", "-P"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def stamp_of(entry, settings):
    text = preprocessed(entry)
    return None if text is None else CACHE / hashlib.sha256(settings + text).hexdigest()


def check(build, entry, stamp):
    done = subprocess.run(
        [TIDY, "-p", str(build), "--quiet", "--warnings-as-errors=*", entry["file"]],
        capture_output=True, text=True, check=False)
    if done.returncode == 0 and stamp is not None:
        stamp.touch()
    return done.returncode == 0, done.stdout + (done.stderr if done.returncode else "")


def changed_files(commits):
    """Files that the last commits and the work tree changed, the newest commit's first."""
    def lines(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    own = lines("diff", "--name-only", "HEAD") + lines("ls-files", "-o", "--exclude-standard")
    return list(dict.fromkeys(own + lines("log", f"-{commits}", "--first-parent", "-m", "--name-only", "--format=")))


def wanted_entries(entries, options):
    """A header has no compile command: the source beside it is checked instead."""
    by_file = {str(pathlib.Path(e["file"]).relative_to(ROOT)): e for e in entries}
    if options.under:
        return {f: e for f, e in by_file.items() if any(f.startswith(u.rstrip("/") + "/") for u in options.under)}
    names = options.files or (changed_files(options.commits) if options.commits else list(by_file))
    names = [n[:-2] + ".cc" if n.endswith(".h") else n for n in names]
    return {n: by_file[n] for n in names if n in by_file}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*", help="these files alone")
    parser.add_argument("--under", nargs="+", metavar="FOLDER", help="files in these folders alone")
    parser.add_argument("--commits", type=int, help="files alone that the last N commits or the work tree changed")
    parser.add_argument("--most", type=int, default=1 << 30, help="at most so many files without a verdict")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="writes which files are clean, failed, left")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    settings = (ROOT / ".clang-tidy").read_bytes()
    entries = [e for e in json.loads((options.build / "compile_commands.json").read_text())
               if pathlib.Path(e["file"]).is_relative_to(ROOT)
               and not pathlib.Path(e["file"]).is_relative_to(ROOT / "build")]
    wanted = wanted_entries(entries, options)
    clean, failed = [], []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        stamps = dict(zip(wanted, pool.map(lambda e: stamp_of(e, settings), wanted.values())))
        open_files = []
        for name, stamp in stamps.items():
            if stamp is not None and stamp.exists():
                stamp.touch()
                clean.append(name)
            else:
                open_files.append(name)
        looked_at, left = open_files[: options.most], open_files[options.most :]
        for name, (ok, text) in zip(looked_at, pool.map(lambda n: check(options.build, wanted[n], stamps[n]), looked_at)):
            (clean if ok else failed).append(name)
            if not ok:
                print(text, flush=True)
    print(f"clang-tidy: {len(clean)} of {len(wanted)} files in order" +
          (f", {len(failed)} not" if failed else "") + (f", {len(left)} left" if left else ""))
    if options.json:
        options.json.write_text(json.dumps({"clean": clean, "failed": failed, "left": left}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
