"""An operator killed (SIGKILL) at any time in a service's life: python3 e2e/operator/kills_test.py

Positions are its requests to the API server, some before and some after the server has done them. JANUS_SEED chooses
three; with JANUS_SOAK twenty.
"""

import os
import pathlib
import random
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from held_case import HeldCase  # noqa: E402

KILLS = 20 if "JANUS_SOAK" in os.environ else 3
COUNTS = [(1, 2), (2, 3), (1, 1)]
PODS = 5


class KillsTest(HeldCase):
    def begin(self, name):
        """A separate namespace and operator for this kill."""
        first = self.namespace
        self.namespace = f"{first.rpartition('-')[0][:40]}-{name}-{os.getpid()}"
        self.setUp()
        self.addCleanup(self.try_kubectl, "delete", "namespace", self.namespace, "--wait=false")

    def requests(self):
        log = self.folders["operator-0"] / "requests"
        return log.read_text().splitlines() if log.exists() else []

    def live(self, is_over=lambda: False):
        """Whether the operator reached the end of its work. Stops waiting once it is dead."""
        for counts in COUNTS:
            self.apply(*counts)
            wait_for(lambda counts=counts: is_over() or self.is_whole(*counts), f"{counts}, or the operator's end")
            if is_over():
                return False
        return True

    def is_whole(self, attention, experts):
        workers = self.workers()
        return self.is_ready() and len(workers) == attention + experts and all(
            pod["metadata"]["labels"].get("serving.janus.dev/member") == "true" for pod in workers.values())

    def world(self):
        """The final state, without random names."""
        return {"children": sorted((kind, one["metadata"]["name"]) for kind in ("services", "deployments", "pdb")
                                   for one in self.get(kind)["items"]),
                "conditions": sorted((one["type"], one["status"], one["reason"])
                                     for one in self.get("moesvc/demo")["status"]["conditions"])}

    def settled(self, seen=None):
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        wait_for(lambda: self.get("moesvc/demo")["status"].get("conditions") and (seen is None or self.world() == seen),
                 f"the same world as {seen}")
        return self.world()

    def test_killed_anywhere_its_successor_ends_in_the_same_world(self):
        operator = self.start_behind_proxy("operator-0", "--leader-election=false")
        before = len(self.requests())
        self.assertTrue(self.live())
        self.await_whole(*COUNTS[-1])
        self.check_books(PODS)
        count = len(self.requests()) - before
        wanted = self.settled()
        operator.kill()
        chosen = random.Random(self.seed())
        # The last few requests only check that all is well, and may not come.
        for number in sorted(chosen.sample(range(1, count * 9 // 10), KILLS)):
            is_done = chosen.random() < 0.5
            with self.subTest(request=number, of=count, is_done=is_done):
                self.begin(str(number))
                self.die_at(number, is_done, wanted)

    def die_at(self, number, is_done, wanted):
        operator = self.start_behind_proxy("operator-0", "--leader-election=false")
        number += len(self.requests())
        self.hold(operator, str(number))
        held = self.folders["operator-0"] / "held"
        self.assertFalse(self.live(held.exists), f"it came to its end before request {number}")
        if is_done:
            self.stop(operator)
            self.let_go(operator)
            self.answer(operator)
        else:
            operator.proxy.kill()
            operator.proxy.wait()
        operator.send_signal(signal.SIGKILL)
        operator.wait()
        print(f"seed {self.used_seed}: {self.requests()[number - 1]}", "done" if is_done else "not done", file=sys.stderr)
        self.start_behind_proxy("operator-1", "--leader-election=false")
        self.assertTrue(self.live())
        self.await_whole(*COUNTS[-1])
        made = self.bound_pods()
        self.assertEqual(len(set(made)), len(made), made)
        self.settled(wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
