"""Machines of the test cluster. Each is a first process with separate pid, mount, network, uts and ipc namespaces: killing
it ends all that runs in it. The real machine's links, mounts and rules stay as they are.

The environment of a process says to which cluster it belongs (MARK = the cluster's folder), and children inherit it. All
that a killed run left behind can therefore be found, whatever it had recorded, and a reused pid is never mistaken.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from limits import limit  # noqa: E402

MARK = "JANUS_TEST_CLUSTER"
# For any single wait. On an idle machine each takes seconds; on a busy one a minute or more.
DEADLINE_SECONDS = limit(300)
# Each machine has separate folders below these paths; /run is a fresh tmpfs.
PRIVATE = ("/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/log/pods",
           "/var/log/containers", "/etc/cni")


class ClusterError(Exception):
    """What could not be done, and what to do about it."""


def wait_for(condition, what):
    """Polls, as it waits for other processes. Returns the condition's value."""
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not within {DEADLINE_SECONDS} s")
        time.sleep(0.02)


def start_time(pid):
    """When the process began, in clock ticks since boot; None if there is no such process."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        # If only the first thread of a process has ended, the process still holds its ports.
        has_ended = fields[0] == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except (OSError, IndexError):
        return None
    return None if has_ended else int(fields[19])


def marked(folder):
    """Processes of this cluster, as (pid, pid in its innermost namespace)."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            status = (entry / "status").read_text()
        except OSError:
            continue
        if "\nState:\tZ" in status:
            continue
        inner = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]
        found.append((int(entry.name), int(inner)))
    return found


def kill_all(folder):
    """Ends every process of the cluster: first those that start others, then the machines."""
    own = os.getpid()

    def rest():
        pids = [(pid, inner) for pid, inner in marked(folder) if pid != own]
        # Only processes outside of machines, and the machines themselves: the kernel ends what is inside.
        for pid, _ in [p for p in pids if p[1] == 1 or p[0] == p[1]] or pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not pids

    wait_for(rest, "the end of the cluster's processes")


class Box:
    """One machine, by name; `folder` is the cluster's."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        self.own = folder / name
        self.log = folder / "log"

    def create(self, pause):
        """Starts the machine. `pause`: the program that becomes its first process."""
        self.own.mkdir(parents=True, exist_ok=True)
        self.log.mkdir(exist_ok=True)
        ready = self.own / "ready"
        ready.unlink(missing_ok=True)
        binds = "\n".join(
            f"mkdir -p {path} {self.own}/root{path}; mount --bind {self.own}/root{path} {path}"
            for path in PRIVATE)
        # With an empty resolv.conf, pulling a missing image fails at once instead of after ten seconds.
        script = f"""set -eu
hostname {self.name}
mount --make-rshared /
mount --bind {self.folder}/resolv.conf "$(readlink -f /etc/resolv.conf)"
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/lock
{binds}
mount --make-rshared /
ip link set lo up
touch {ready}
exec {pause}
"""
        with open(self.log / f"{self.name}.log", "ab") as log:
            first = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--mount-proc",
                 "--kill-child", "--propagation", "private", "--", "sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=self.environment())
        log = self.log / f"{self.name}.log"

        def is_ready():
            if first.poll() is not None:
                raise ClusterError(f"machine {self.name} ended at once: {log.read_text().strip()}")
            return ready.exists()

        wait_for(is_ready, f"machine {self.name} (see {log})")
        pid = wait_for(self.find, f"first process of machine {self.name} (see {log})")
        (self.own / "pid").write_text(f"{pid} {start_time(pid)}\n")

    def environment(self, **more):
        return {**os.environ, MARK: str(self.folder), "JANUS_TEST_MACHINE": self.name, **more}

    def find(self):
        """The pid of its first process outside the machine. None: it was not found; a process that has just started a
        program has no environment for a moment."""
        own = f"JANUS_TEST_MACHINE={self.name}".encode()
        for pid, inner in marked(self.folder):
            try:
                if inner == 1 and own in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return pid
            except OSError:
                continue
        return None

    def pid(self):
        """The recorded first process. Fails if it has ended."""
        try:
            pid, began = (int(word) for word in (self.own / "pid").read_text().split())
        except (OSError, ValueError):
            raise ClusterError(f"machine {self.name} was not started") from None
        if start_time(pid) != began:
            raise ClusterError(f"machine {self.name} has ended; see {self.log}")
        return pid

    def command(self, *words):
        return ["nsenter", "-t", str(self.pid()), "-m", "-u", "-i", "-n", "-p", "--",
                *(str(word) for word in words)]

    def run(self, *words, **options):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False,
                              env=self.environment(), **options)
        if done.returncode != 0:
            raise ClusterError(f"{self.name}: {' '.join(str(w) for w in words)}: "
                               f"{(done.stderr or done.stdout).strip()}")
        return done.stdout

    def start(self, program, *words, **environment):
        """Starts a daemon. Its output goes to log/<machine>-<program>.log."""
        with open(self.log / f"{self.name}-{program}.log", "ab") as log:
            # It is not our child: it outlives this process and is found by its mark.
            subprocess.run(["setsid", "--fork", *self.command(*words)], stdin=subprocess.DEVNULL, stdout=log,
                           stderr=log, env=self.environment(**environment), check=True)

    def processes(self, program):
        """Pids outside the machine of the processes in it that run this file."""
        space = os.readlink(f"/proc/{self.pid()}/ns/pid")
        found = []
        for pid, _ in marked(self.folder):
            try:
                if (os.readlink(f"/proc/{pid}/ns/pid") == space
                        and os.path.basename(os.readlink(f"/proc/{pid}/exe")) == program):
                    found.append(pid)
            except OSError:
                continue
        return found

    def stop(self, program, number=signal.SIGTERM):
        """Ends a daemon and waits for it: with open watches, an API server takes seconds."""
        for pid in self.processes(program):
            began = start_time(pid)
            os.kill(pid, number)
            wait_for(lambda pid=pid, began=began: start_time(pid) != began, f"the end of {program}")
