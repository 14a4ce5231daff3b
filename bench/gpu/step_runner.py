"""Runs the steps of scripts/gpu. Each is a program with a time limit; all share one deadline and one file of results that
a later run continues."""

import contextlib
import hashlib
import pathlib
import subprocess
import tempfile
import time

import sanitizer_report
from bounded import CUT, ROOT, ended, started
from result_book import case_counts

FOUND = 9  # compute-sanitizer found an error
TORCH_SECONDS = 40  # time for torch to say whether it sees a GPU


def bytes_of(path):
    """The part of a program that runs. In the rest, nvcc and the linker write bytes that differ from build to build."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(OSError, subprocess.SubprocessError):
        stripped = pathlib.Path(folder) / "stripped"
        subprocess.run(["strip", "-R", ".note.gnu.build-id", "-o", stripped, path], check=True, capture_output=True,
                       timeout=30)
        return stripped.read_bytes()
    return path.read_bytes()  # a script


class Digests:
    def __init__(self):
        self.known = {}

    def of(self, paths):
        """None: a file is missing."""
        found = hashlib.sha256()
        for path in paths:
            if not path.exists():
                return None
            if path not in self.known:
                self.known[path] = hashlib.sha256(bytes_of(path)).digest()
            found.update(path.name.encode() + self.known[path])
        return found.hexdigest()[:12]


class Step:
    """`needs`: the programs and scripts on which its results depend. `cases`: the book of its GoogleTest cases; a case that
    was cut runs once more. `book`: the book in which another program marks when a case begins; a case that ends its
    process is skipped. `after`: the steps with whose lines it compares; it ends after them. `missing`: why it cannot run
    here, or a function that finds this out within a number of seconds."""

    def __init__(self, name, seconds, *command, needs=(), cases=None, book=None, after=(), missing=None, is_watched=False):
        self.name, self.seconds, self.command = name, seconds, [str(word) for word in command]
        self.needs, self.after, self.missing = tuple(needs), tuple(after), missing
        self.cases, self.book = cases, cases or book
        self.is_watched = is_watched  # runs under compute-sanitizer
        self.digest = None


class Runner:
    def __init__(self, book, seconds, logs):
        self.book, self.logs = book, logs
        self.deadline = time.monotonic() + seconds
        self.skipped = {}  # steps that could not run, and why
        self.log_begins = {}  # bytes in a step's log before this run

    def left(self):
        return self.deadline - time.monotonic()

    def log_of(self, name):
        return self.logs / f"{name.replace(' ', '-')}.log"

    def log_size(self, name):
        log = self.log_of(name)
        return log.stat().st_size if log.exists() else 0

    def log_text(self, name, begin=None):
        """The log since the step, or its process, began."""
        log = self.log_of(name)
        if not log.exists():
            return ""
        return log.read_bytes()[self.log_begins.get(name, 0) if begin is None else begin:].decode(errors="replace")

    def last_words(self, name, begin=None):
        words = self.log_text(name, begin).split("\n")
        return next((line.strip()[:200] for line in reversed(words) if line.strip()), "")

    def once(self, name, command, seconds, environment=None):
        with self.log_of(name).open("ab") as log:
            child = started(command, log, {"JANUS_SOURCE_DIR": str(ROOT), **(environment or {})})
            return ended(child, seconds,
                         lambda: self.book.write(step=name, stuck="it was killed and has not gone, and may hold the GPU"))

    def missing_of(self, step):
        """Why it cannot run, and whether that is final."""
        if not callable(step.missing):
            return step.missing, True
        limit = min(TORCH_SECONDS, self.left())
        try:
            return step.missing(limit), True
        except subprocess.TimeoutExpired:
            return f"it is not known within {limit:.0f} s whether it can run here", limit >= TORCH_SECONDS

    def run(self, step, environment=None):
        """Whether the step is done, successfully or not."""
        if self.book.ended(step.name):
            return True
        if self.left() < 5:
            return False
        missing, is_final = self.missing_of(step)
        if missing:
            if is_final:
                self.book.write(step=step.name, skipped=missing)
                self.skipped[step.name] = missing
            return is_final
        if self.left() < 5:
            return False
        self.book.write(step=step.name, begins=True, digest=step.digest)
        self.log_begins[step.name] = self.log_size(step.name)
        until = time.monotonic() + min(step.seconds, self.left())
        status = 0
        for more in ([], ["--again"]) if step.cases else ([],):
            begun = step.book.begun() if step.book else 0
            status = self.run_behind_faults(step, more, until, environment)
            if step.cases and status in (1, FOUND) and step.book.begun() > begun:
                status = 0  # every case that ended has a line with its result
            if status != 0:
                break
        return self.close(step, status) == 0

    def close(self, step, status):
        """Writes the result of the step. 0: it is done."""
        text = self.log_text(step.name)
        if step.is_watched and (found := sanitizer_report.found_in(text, step.book.last_begun())):
            self.book.write(step=step.name, found=found)
        says = self.last_words(step.name)
        if step.cases:
            counts = case_counts(step.cases.lines() if step.cases is not self.book else self.book.of_step(step.name))
            self.book.write(step=step.name, **counts)
            if status == 0 and not any(counts.values()):
                status, says = 1, "no case was run"
            if status == 0 and step.is_watched and (unseen := sanitizer_report.unseen_in(text)):
                status, says = 1, unseen
        if status == CUT:
            self.book.write(step=step.name, cut=True, during=step.book.during() if step.book else None)
        elif status != 0:
            # The next run tries it again.
            self.book.write(step=step.name, failed=status, says=says, log=str(self.log_of(step.name)))
        elif waits := [name for name in step.after if not self.book.ended(name)]:
            self.book.write(step=step.name, waits_for=waits)
            return CUT
        else:
            self.book.write(step=step.name, ended=True, digest=step.digest)
        return status

    def run_behind_faults(self, step, more, until, environment):
        """A case that ended the process, or broke the GPU, is in the book. The next process continues behind it."""
        while True:
            begun = step.book.begun() if step.book else 0
            log_begin = self.log_size(step.name)
            status = self.once(step.name, step.command + more, until - time.monotonic(), environment)
            grew = step.book is not None and step.book.begun() > begun
            if status in (0, CUT) or (step.cases and status in (1, FOUND) and grew):
                return status
            self.book.write(step=step.name, exit=status, says=self.last_words(step.name, log_begin),
                            during=step.book.during() if step.book else None)
            if not grew:
                return status

    def run_all(self, steps):
        """Runs the steps and returns those that are not done."""
        # Steps that never began come before those that were cut; otherwise the order of value.
        order = sorted(steps, key=lambda step: self.book.tries(step.name))
        return [step.name for step in order if not self.run(step)]
