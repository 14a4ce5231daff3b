"""Runs a command of the repository in a separate session, with its output on the screen and in a log, and a time limit."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "janus"


class Cut(Exception):
    """The command's time ended before the command did."""


_running = set()


def _session(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return None


def _kill(session):
    """Every process of the session. A process group is not enough: ninja starts a new group for each of its commands."""
    until = time.monotonic() + 10  # a process that hangs in the kernel dies later
    while time.monotonic() < until:
        found = [int(p.name) for p in pathlib.Path("/proc").iterdir()
                 if p.name.isdigit() and _session(p.name) == session and not _is_dead(p.name)]
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not found:
            return
        time.sleep(0.005)


def _is_dead(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def end_on_signals():
    """Lets SIGTERM end the program like Ctrl-C, so that kill_all() still runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def kill_all():
    """Ends what run() and start() have started, and what is left of it."""
    for session in list(_running):
        _kill(session)


def _yield_by(nice):
    os.nice(nice)
    _set_group("self", nice)


def _set_group(pid, nice):
    try:  # between sessions the kernel goes by the niceness of their groups
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
    except OSError:
        pass


def yield_no_more(process):
    """What start() has started with a niceness is waited for now."""
    _set_group(process.pid, 0)


def start(text, log, environment=None, nice=0):
    """Starts a bash command; its output goes only to `log`. It reads env.sh first, to find what a phase has installed."""
    process = subprocess.Popen(
        ["bash", "-c", f"set -euo pipefail; source scripts/env.sh; {text}"], cwd=ROOT, stdin=subprocess.DEVNULL,
        stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **(environment or {})},
        preexec_fn=(lambda: _yield_by(nice)) if nice else None)
    _running.add(process.pid)
    return process


def end(process, until=None):
    """Waits for the process of start() until `until` (time.monotonic()). Returns its exit status. Raises Cut."""
    try:
        return process.wait(None if until is None else max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise Cut from None
    finally:
        _kill(process.pid)  # also kills what a command has left behind
        process.wait()
        _running.discard(process.pid)


def was_interrupted(status):
    """Whether a signal from outside ended a command, or a child that it waited for. A crash is none, and 137 may be one of memory."""
    signals = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    return status in {-one for one in (*signals, signal.SIGKILL)} | {128 + one for one in signals}


def run(text, log, until=None, environment=None, shown=True):
    """Runs a bash command. Returns its exit status. Raises Cut at `until`. Output goes to `log`; if `shown`, to the screen, too."""
    log = pathlib.Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        if not shown:
            return end(start(text, out, environment), until)
        process = start(text, subprocess.PIPE, environment)

        def copy():
            for line in process.stdout:
                out.write(line)
                out.flush()
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

        copier = threading.Thread(target=copy)
        copier.start()
        try:
            return end(process, until)
        finally:
            copier.join()


def tail(log, lines=40):
    text = pathlib.Path(log).read_text(errors="replace").splitlines()
    return "\n".join(text[-lines:])
