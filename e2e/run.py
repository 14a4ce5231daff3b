"""Runs suites, some of them at a time: python3 e2e/run.py LANES SUITE...

A suite waits most of its time for what a cluster does, and each has a cluster of its own. What one prints is
shown when it has ended. After one that fails no other is begun.
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Lanes:
    def __init__(self):
        self.printing = threading.Lock()
        self.failed = []

    def say(self, text):
        with self.printing:
            print(text, end="", flush=True)

    def run(self, suite):
        if self.failed:
            self.say(f"--- {suite}: not run\n")
            return
        self.say(f"--- {suite}: begins\n")
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-B", suite], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0:
            self.failed.append(suite)
        how = "" if done.returncode == 0 else f", failed ({done.returncode})"
        self.say(f"{done.stdout}--- {suite}: {time.monotonic() - begun:.0f} s{how}\n")


def main():
    if len(sys.argv) < 3 or not sys.argv[1].isdigit() or sys.argv[1] == "0":
        sys.exit(__doc__)
    lanes = Lanes()
    with concurrent.futures.ThreadPoolExecutor(int(sys.argv[1])) as pool:
        list(pool.map(lanes.run, sys.argv[2:]))
    if lanes.failed:
        sys.exit(f"failed: {' '.join(lanes.failed)}")


if __name__ == "__main__":
    main()
