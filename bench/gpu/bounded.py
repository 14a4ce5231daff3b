"""Runs programs that end with this process, or when their time is up."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUT = 124
GRACE_SECONDS = 3  # Ninja's compilers are in other process groups: Ninja must end them itself
STUCK_SECONDS = 20  # time that the driver may need to release a killed process


def in_a_group():
    """Puts the program into its own process group, and lets it end with this process."""
    os.setpgid(0, 0)
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def started(command, output, environment=None):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=in_a_group,
                            cwd=ROOT, env={**os.environ, **(environment or {})})


def killed(child):
    """Ends the child and its children, which hold the GPU as well. False: it is still there."""
    for how, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, STUCK_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    return child.returncode is not None


def ended(child, seconds, stuck=lambda: None):
    """The exit status; CUT: the time was up. Calls stuck() if the child could not be killed."""
    try:
        return child.wait(max(seconds, 0.1))
    except BaseException as why:
        if not killed(child):
            stuck()
        if isinstance(why, subprocess.TimeoutExpired):
            return CUT
        raise


def output_of(*command, seconds=10):
    """The output; None if the command fails or exceeds the time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT,
                              timeout=seconds).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
