"""Programs that end with this process, and when their time is up."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUT = 124
GRACE_SECONDS = 3  # for Ninja, whose compilers are in groups of their own: it ends them itself
STUCK_SECONDS = 20  # what the driver may need to let go of a process that was killed


def in_a_group():
    """So that it ends with its own children, and with this process."""
    os.setpgid(0, 0)
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def started(command, output, environment=None):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=in_a_group,
                            cwd=ROOT, env={**os.environ, **(environment or {})})


def killed(child):
    """Its own children too, which hold the GPU as well. False: it has not gone."""
    for how, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, STUCK_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    return child.returncode is not None


def ended(child, seconds, stuck=lambda: None):
    """Its status; CUT: it was killed. stuck() is called where even that did not end it."""
    try:
        return child.wait(max(seconds, 0.1))
    except BaseException as why:
        if not killed(child):
            stuck()
        if isinstance(why, subprocess.TimeoutExpired):
            return CUT
        raise


def output_of(*command, seconds=10):
    """None where it fails, or says nothing in that time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT,
                              timeout=seconds).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
