"""Settings of the whole machine that the kubelets of a cluster change.

The first cluster that needs them writes down what they were, the last one that goes gives them back: what
one of two gave back would be taken from the other. Who has them is written where every cluster of this
machine finds it, whatever its state folder, and until the machine starts anew, as the settings last.
"""

import contextlib
import fcntl
import json
import pathlib

# As k8s.io/kubernetes/pkg/kubelet/cm (setupKernelTunables) has them.
NAMES = ("vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
         "kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes")


class Sysctls:
    """`book`: the file that says who has them; `root`: where the settings are files."""

    def __init__(self, book=pathlib.Path("/run/janus-test-sysctls.json"), root=pathlib.Path("/proc/sys")):
        self.book = book
        self.root = root

    def file(self, name):
        return self.root / name.replace(".", "/")

    def hold(self, folder):
        """Before a cluster's first kubelet; `folder` is the cluster's, and there."""
        with self._opened() as kept:
            if not kept["values"]:
                kept["values"] = {name: self.file(name).read_text().strip() for name in NAMES
                                  if self.file(name).exists()}
            kept["users"] = sorted({*kept["users"], str(folder)})

    def release(self, folder):
        """After a cluster's last kubelet, once or more often, and for one that never had them too."""
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
            # Whose folder somebody has removed is no user any more, and was not asked.
            kept["users"] = [user for user in kept["users"] if pathlib.Path(user).exists()]
            yield kept
            if kept["values"]:
                new = self.book.with_suffix(".new")
                new.write_text(json.dumps(kept))
                new.rename(self.book)  # whole, whenever its writer is killed
            else:
                self.book.unlink(missing_ok=True)
