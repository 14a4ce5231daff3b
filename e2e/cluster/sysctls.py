"""Settings of the whole machine that the kubelets of a cluster change.

The first cluster that needs them records the old values. The last one restores them, as an earlier restore would affect
the others. The users are recorded where every cluster of this machine finds it, with any state folder, until the machine
restarts: the settings last as long.
"""

import contextlib
import fcntl
import json
import pathlib

# The list of k8s.io/kubernetes/pkg/kubelet/cm (setupKernelTunables).
NAMES = ("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
         "kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes")


class Sysctls:
    """`book`: the file that records the users; `root`: the folder of the settings."""

    def __init__(self, book=pathlib.Path("/run/janus-test-sysctls.json"), root=pathlib.Path("/proc/sys")):
        self.book = book
        self.root = root

    def file(self, name):
        return self.root / name.replace(".", "/")

    def hold(self, folder):
        """Call it before a cluster's first kubelet. `folder` is the cluster's and must exist."""
        with self._opened() as kept:
            if not kept["values"]:
                kept["values"] = {name: self.file(name).read_text().strip() for name in NAMES
                                  if self.file(name).exists()}
            kept["users"] = sorted({*kept["users"], str(folder)})

    def release(self, folder):
        """Call it after a cluster's last kubelet. Repeated calls, and calls without hold(), are allowed."""
        if not self.book.exists():
            return
        with self._opened() as kept:
            kept["users"] = [user for user in kept["users"] if user != str(folder)]
            if kept["users"]:
                return
            for name, value in kept["values"].items():
                if self.file(name).read_text().strip() != value:
                    self.file(name).write_text(value)
            kept["values"] = {}

    @contextlib.contextmanager
    def _opened(self):
        with open(self.book.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = json.loads(self.book.read_text()) if self.book.exists() else {"values": {}, "users": []}
            # If a cluster's folder was deleted, the cluster no longer counts as a user.
            kept["users"] = [user for user in kept["users"] if pathlib.Path(user).exists()]
            yield kept
            if kept["values"]:
                new = self.book.with_suffix(".new")
                new.write_text(json.dumps(kept))
                new.rename(self.book)  # complete even if the writer is killed
            else:
                self.book.unlink(missing_ok=True)
