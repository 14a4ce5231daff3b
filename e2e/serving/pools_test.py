"""A service of several pools, on two real nodes: python3 e2e/serving/pools_test.py

A pool is added, loses a member, is drained, and comes again. Clients ask without a pause. No request may fail, every answer to a
prompt must be the same, and neither the gateways nor the other pool may change.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from served_case import OF_GATEWAYS, OF_WORKERS, ServedCase  # noqa: E402

POOL = "serving.janus.dev/pool"


class PoolsTest(ServedCase):
    def serve(self, pools):
        self.apply("demo", "demo", gateway={"replicas": 2}, pools=pools,
                   roles={"attention": {"replicas": 1, "maxBatchSize": 16, "kvCache": {"size": "64Mi"}},
                          "experts": {"replicas": 2}})
        self.await_served("demo")

    def scale(self, pools):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", json.dumps({"spec": {"pools": pools}}))
        wanted = [(number, "Serving") for number in range(1, pools + 1)]
        wait_for(lambda: self.states_of_pools() == wanted and self.is_ready(), f"pools {wanted}")

    def pools(self):
        return {pool["number"]: pool for pool in self.get("moesvc/demo")["status"].get("pools", [])}

    def states_of_pools(self):
        return [(number, pool["state"]) for number, pool in sorted(self.pools().items())]

    def epoch_of(self, pool):
        return self.pools()[pool]["epoch"]

    def workers(self, pool, role=None):
        """Its pods that are not being deleted, by name."""
        return {name: pod for name, pod in self.living(OF_WORKERS).items()
                if pod["metadata"]["labels"].get(POOL, "1") == str(pool) and (role is None or f"-{role}-" in name)}

    def tokens_of(self, pool):
        lines = [line for pod in self.workers(pool, "attention") for line in self.page(pod).splitlines()]
        return sum(float(line.split()[-1]) for line in lines if line.startswith("janus_generated_tokens_total"))

    def test_pools_come_lose_members_and_go(self):
        self.serve(1)
        askers = self.ask_demo(12)
        gateways, first, members = self.states(OF_GATEWAYS), self.epoch_of(1), set(self.workers(1))
        with self.subTest("added"):
            self.scale(2)
            wait_for(lambda: self.tokens_of(2) > 100, "the second pool's share of the load")
            askers.await_more(6)
        for role in ("experts", "attention"):
            with self.subTest(f"its {role} pod is killed"):
                second = self.epoch_of(2)
                self.signal_container(next(iter(self.workers(2, role).values())), "SIGKILL")
                wait_for(lambda before=second: self.epoch_of(2) > before and self.is_ready(), "the pool's next epoch")
                askers.await_more(6)
        with self.subTest("its pod is deleted"):
            second = self.epoch_of(2)
            self.kubectl("delete", "pod", next(iter(self.workers(2, "experts"))), "--wait=false")
            wait_for(lambda: self.epoch_of(2) > second and self.is_ready(), "another pod in its place")
            askers.await_more(6)
        with self.subTest("drained"):
            second = self.epoch_of(2)
            self.scale(1)
            wait_for(lambda: not self.workers(2), "the end of its pods")
            askers.await_more(12)
        with self.subTest("again"):
            self.scale(2)
            self.assertGreater(self.epoch_of(2), second)
            wait_for(lambda: self.tokens_of(2) > 100, "its share of the load")
        self.assertEqual(self.epoch_of(1), first, "the first pool served on")
        self.assertEqual(set(self.workers(1)), members)
        self.assertEqual(self.states(OF_GATEWAYS), gateways, "and so did the gateways")
        self.check_answers(askers)

    def test_a_service_without_pools_gets_some(self):
        self.apply("demo", "demo", gateway={"replicas": 2},
                   roles={"attention": {"replicas": 1, "kvCache": {"size": "64Mi"}}, "experts": {"replicas": 1}})
        self.await_served("demo")
        askers = self.ask_demo(6)
        members, epoch = set(self.living(OF_WORKERS)), self.epoch()
        self.scale(2)
        wait_for(lambda: self.tokens_of(2) > 100, "the second pool's share of the load")
        askers.await_more(6)
        self.assertEqual(set(self.workers(1)), members, "no worker is replaced")
        self.assertEqual(self.epoch_of(1), epoch)
        self.check_answers(askers)

    def test_a_budget_holds_the_pods_of_all_pools(self):
        self.serve(2)
        for role, pods in (("attention", 2), ("experts", 4)):
            budget = self.get(f"pdb/demo-{role}")
            self.assertEqual(budget["spec"]["minAvailable"], pods)


if __name__ == "__main__":
    unittest.main(verbosity=2)
