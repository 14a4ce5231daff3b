"""Disturbances of a service on a real API server, with fake pods: python3 e2e/operator/upheaval_test.py

Nodes are drained, tainted or lost, and users change their mind. The operator is that of operator_test.py; pods and nodes
are KWOK's.
"""

import concurrent.futures
import datetime
import json
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from operator_case import OperatorCase  # noqa: E402

OWNED = "pods,services,serviceaccounts,deployments,replicasets,poddisruptionbudgets,networkpolicies,moetopologies,moerolescalers"


class UpheavalTest(OperatorCase):
    def setUp(self):
        super().setUp()
        self.operator = self.start("operator-0", "--leader-election=false")
        self.apply(1, 3)
        self.await_whole(1, 3)

    def node_of(self, role):
        """A node that has a worker of the role."""
        return next(pod["spec"]["nodeName"] for name, pod in sorted(self.workers().items()) if f"-{role}-" in name)

    def workers_on(self, node):
        return [name for name, pod in self.workers().items() if pod["spec"].get("nodeName") == node]

    def evictions(self):
        """(name, code) of the requested evictions, in order."""
        return [(entry["objectRef"]["name"], entry["responseStatus"]["code"]) for entry in self.audited("kubectl")
                if entry["objectRef"].get("subresource") == "eviction"]

    def await_without(self, node, attention, experts):
        wait_for(lambda: not self.workers_on(node), f"nobody left on {node}")
        self.await_whole(attention, experts)
        self.assertEqual(self.workers_on(node), [])

    def drain_while_the_operator_is_stopped(self, node, pods, what):
        """Drains the node. The operator is stopped until an eviction of each of these pods was requested: `what`."""
        self.operator.send_signal(signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            drain = threads.submit(self.kubectl, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", TIMEOUT,
                                   namespaced=False)
            try:
                wait_for(lambda: pods <= {name for name, _ in self.evictions()}, what)
            finally:
                self.operator.send_signal(signal.SIGCONT)
            drain.result()

    def test_a_drained_node_gets_its_evictions_once_others_serve(self):
        node = self.node_of("experts")
        leaving = set(self.workers_on(node))
        self.addCleanup(self.try_kubectl, "uncordon", node)
        # While the operator is stopped, workers are not replaced: the server must refuse to evict them.
        self.drain_while_the_operator_is_stopped(node, leaving, "an eviction of every worker")
        self.await_without(node, 1, 3)
        evictions = self.evictions()
        for name in leaving:
            codes = [code for one, code in evictions if one == name]
            self.assertEqual(codes[0], 429, f"{name} was evicted before others served: {evictions}")
        self.assertEqual({pod["metadata"]["name"] for pod in self.get("pods")["items"]} & leaving, set())

    def test_the_only_gateway_is_evicted_once_a_spare_one_is_ready(self):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", '{"spec":{"gateway":{"replicas":1}}}')

        def gateways():
            return {one["metadata"]["name"]: one["spec"].get("nodeName") for one in json.loads(self.kubectl(
                "get", "pods", "-l", "app.kubernetes.io/component=gateway", "-o", "json"))["items"]
                    if "deletionTimestamp" not in one["metadata"]}

        wait_for(lambda: len(gateways()) == 1 and
                 self.get("pdb/demo-gateway").get("status", {}).get("currentHealthy") == 1, "one gateway")
        (name, node), = gateways().items()
        self.addCleanup(self.try_kubectl, "uncordon", node)
        # While the operator is stopped, there is no spare gateway: the server must refuse to evict the only one.
        self.drain_while_the_operator_is_stopped(node, {name}, "an eviction of the gateway")
        codes = [code for one, code in self.evictions() if one == name]
        self.assertEqual((codes[0], codes[-1]), (429, 201), codes)
        wait_for(lambda: len(gateways()) == 1 and node not in gateways().values(), "one gateway on the other node")

    def test_a_taint_that_evicts_empties_its_node(self):
        node = self.node_of("attention")
        self.addCleanup(self.try_kubectl, "taint", "node", node, "maintenance-")
        self.kubectl("taint", "node", node, "maintenance=now:NoExecute", namespaced=False)
        self.await_without(node, 1, 3)
        self.kubectl("taint", "node", node, "maintenance-", namespaced=False)

    def test_what_a_lost_node_held_is_made_elsewhere(self):
        node = self.node_of("experts")
        self.addCleanup(self.add_fake_node, node)
        self.addCleanup(self.try_kubectl, "delete", "node", node)
        # The node sends no heartbeat, and has not sent one for longer than the operator waits.
        self.kubectl("annotate", "node", node, "kwok.x-k8s.io/node-", namespaced=False)
        self.kubectl("-n", "kube-node-lease", "delete", "lease", node, "--ignore-not-found", namespaced=False)
        since = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=90)).strftime(
            "%Y-%m-%dT%H:%M:%SZ")
        unheard = {"status": {"conditions": [{
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no news",
            "lastTransitionTime": since, "lastHeartbeatTime": since}]}}
        self.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", json.dumps(unheard),
                     namespaced=False)
        self.await_without(node, 1, 3)

    def test_asleep_awake_and_gone_it_leaves_nothing_behind(self):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_for(lambda: not self.workers(), "no workers")
        self.assertEqual({one["metadata"]["name"] for one in self.get("services")["items"]}, {"demo", "demo-members"})
        self.kubectl("wait", "--for=condition=Progressing", "moesvc/demo", TIMEOUT)
        self.assertEqual([one["metadata"]["name"] for one in self.get("pdb")["items"]], ["demo-gateway"],
                         "a budget that holds up nobody's eviction")
        epoch = self.get("moesvc/demo")["status"]["topology"]["epoch"]
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        self.await_whole(1, 3)
        self.assertGreater(self.get("moesvc/demo")["status"]["topology"]["epoch"], epoch)
        self.kubectl("delete", "moesvc", "demo")

        def left():
            return [f"{one['kind']} {one['metadata']['name']}" for one in self.get(OWNED)["items"]
                    if one["metadata"]["name"] not in ("default", "janus-operator")]

        wait_for(lambda: not left(), "everything gone")

    def test_two_releases_over_one_namespace_do_not_fight(self):
        """The second asks once whether the first runs, gets its answer in the status, and writes nothing else."""
        def progressing():
            said = {one["type"]: one for one in self.get("moesvc/demo")["status"]["conditions"]}
            return said["Progressing"]

        fence = self.get("moetopologies")["items"][0]["spec"]["fence"]
        self.start("operator-1", "--leader-election=false", "--lease-name=second")
        own, other = f"{self.namespace}/janus-operator", f"{self.namespace}/second"
        wait_for(lambda: progressing()["reason"] == "AnotherOperator", "the condition that names the other release")
        self.assertIn(f"the operator of release {other} watches this service too. Release {own} keeps it",
                      progressing()["message"])
        wait_for(lambda: self.get("moesvc/demo")["status"]["operator"] == {"name": own}, "the answer")
        wait_for(lambda: "AnotherOperator" in self.kubectl("get", "events", "--field-selector=reason=AnotherOperator"),
                 "the Event of the second")
        # An edit, which both see: the first follows it alone, and each change is written once.
        before = len(self.writes())
        self.apply(1, 4)
        self.await_whole(1, 4)
        refused = [one for one in self.writes()[before:] if one[3] == 409]
        self.assertEqual(refused, [], "writes that met another's")
        self.assertEqual(self.get("moetopologies")["items"][0]["spec"]["fence"], fence)

    def test_who_applies_the_same_again_and_again_moves_nothing(self):
        """Applies the same object again, like Argo CD; with JANUS_SOAK every ten seconds for five minutes."""
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        wait_for(lambda: self.metrics(self.operator)["janus_events_waiting"] == 0, "all Events written")
        epoch = self.get("moesvc/demo")["status"]["topology"]["epoch"]
        before = self.writes()
        text = self.object(1, 3)
        self.kubectl("apply", "--server-side", "--field-manager=argocd-controller", "--force-conflicts", "-f", "-",
                     text=text)
        version = self.get("moesvc/demo")["metadata"]["resourceVersion"]
        is_soak = "JANUS_SOAK" in os.environ
        for _ in range(30 if is_soak else 5):
            self.kubectl("diff", "-f", "-", text=text)
            self.kubectl("apply", "--server-side", "--field-manager=argocd-controller", "--force-conflicts", "-f", "-",
                         text=text)
            if is_soak:
                time.sleep(10)  # the interval itself is tested
        self.assertEqual(self.get("moesvc/demo")["metadata"]["resourceVersion"], version)
        self.assertEqual(self.get("moesvc/demo")["status"]["topology"]["epoch"], epoch)
        self.assertEqual(self.writes(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
