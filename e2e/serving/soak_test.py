"""Random losses and edits of a service on two real nodes while it is asked: python3 e2e/serving/soak_test.py

For three minutes (JANUS_SOAK=1: twenty) workers are killed, stopped (SIGSTOP) and deleted, counts change, Secrets with
certificates are deleted, operators are deleted, and the API server goes away. JANUS_SEED chooses what, when and which;
the run prints each choice. Clients ask without a pause. No request may fail, every answer to a prompt must be the same, and
at the end every condition must be as that of an undisturbed service.
"""

import os
import pathlib
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from served_case import OF_GATEWAYS, OF_WORKERS, ServedCase  # noqa: E402

from box import ClusterError  # noqa: E402

MINUTES = 20 if "JANUS_SOAK" in os.environ else 3
# Conditions of a service that is well and has no target.
EXCEPT = {"Stalled": "False", "SLOMet": "Unknown"}


class SoakTest(ServedCase):
    def act(self, name, *words):
        print(f"{time.monotonic() - self.began:6.1f} s: {name}", *words, flush=True)

    def worker(self):
        return self.draw.choice([pod for _, pod in sorted(self.living(OF_WORKERS).items())])

    def try_signal(self, pod, name):
        """A container that has not started, or that just restarts, has no process to signal."""
        if not pod["status"].get("containerStatuses", [{}])[0].get("started"):
            return
        try:
            self.signal_container(pod, name)
            self.act(name, pod["metadata"]["name"])
        except ClusterError as error:
            if "not found" not in str(error) and "already finished" not in str(error):
                raise

    # What happens.

    def signal_worker(self, name):
        self.try_signal(self.worker(), name)

    def kill(self):
        self.signal_worker("SIGKILL")

    def hang(self):
        self.signal_worker("SIGSTOP")

    def delete(self):
        name, ways = self.worker()["metadata"]["name"], ((), ("--grace-period=0", "--force"))
        self.act("delete", name, *(how := self.draw.choice(ways)))
        self.kubectl("delete", "pod", name, "--wait=false", *how)

    def resize(self):
        self.counts = (self.draw.choice((1, 2, 3)), self.draw.choice((2, 3, 4)))
        self.act("resize", *self.counts)
        attention, experts = self.counts
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     f'{{"spec": {{"roles": {{"attention": {{"replicas": {attention}}}, '
                     f'"experts": {{"replicas": {experts}}}}}}}}}')

    def lose_secret(self):
        """With a pod that needs it."""
        role = self.draw.choice(("attention", "experts"))
        pods = [name for name in sorted(self.living(OF_WORKERS)) if f"-{role}-" in name]
        name = self.draw.choice(pods)
        self.act("delete", f"secret/demo-{role}-tls", name)
        self.kubectl("delete", "secret", f"demo-{role}-tls", "--ignore-not-found")
        self.kubectl("delete", "pod", name, "--wait=false")

    def lose_operator(self):
        name = self.draw.choice(sorted(pod["metadata"]["name"] for pod in self.operators()))
        self.act("delete", name)
        self.kubectl("-n", "janus-system", "delete", "pod", name, "--wait=false", namespaced=False)

    def lose_api(self):
        """Often with a worker that is lost meanwhile."""
        seconds, pod = self.draw.uniform(2, 20), self.worker()
        kills = self.draw.random() < 0.5
        self.act("API server away", f"{seconds:.0f} s")
        self.plane.box.stop("kube-apiserver", signal.SIGKILL)
        try:
            if kills:
                self.try_signal(pod, "SIGKILL")
            time.sleep(seconds)  # the length of the outage
        finally:
            self.plane.start_api_server()
            self.plane.await_ready()

    def is_whole(self):
        roles = {role["name"]: role["ready"] for role in self.get("moesvc/demo")["status"]["roles"]}
        attention, experts = self.counts
        return roles == {"attention": f"{attention}/{attention}", "experts": f"{experts}/{experts}"} and self.is_ready()

    def conditions(self):
        return {one["type"]: one["status"] for one in self.get("moesvc/demo")["status"]["conditions"]}

    def are_undisturbed(self):
        found = self.conditions()
        return found == {kind: EXCEPT.get(kind, "True") for kind in found}

    def test_random_losses_and_edits_cost_no_request_and_leave_no_trace(self):
        self.draw = random.Random(self.seed())
        print(f"JANUS_SEED={self.used_seed}, {MINUTES} minutes", flush=True)
        self.counts = (2, 3)
        self.apply("demo", "demo", gateway={"replicas": 2},
                   roles={"attention": {"replicas": 2, "maxBatchSize": 16}, "experts": {"replicas": 3}})
        self.await_served("demo")
        askers = self.ask_demo(12)
        self.began = time.monotonic()
        acts = [self.kill, self.hang, self.delete, self.resize, self.lose_secret, self.lose_operator, self.lose_api]
        # Every kind once, then at random.
        first = self.draw.sample(acts, len(acts))
        while time.monotonic() < self.began + 60 * MINUTES:
            (first.pop() if first else self.draw.choice(acts))()
            # Sometimes the next one comes before the service is whole again.
            if self.draw.random() < 0.3:
                time.sleep(self.draw.uniform(0, 5))
                continue
            wait_for(self.is_whole, "a whole service")
            askers.await_more(3)
        wait_for(self.is_whole, "a whole service")
        wait_for(self.are_undisturbed, "every condition")
        print(f"{time.monotonic() - self.began:6.1f} s: {self.conditions()}", flush=True)
        self.assertEqual(len(self.living(OF_WORKERS)), sum(self.counts))
        self.assertEqual(len(self.living(OF_GATEWAYS)), 2)
        askers.await_more(12)
        self.check_answers(askers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
