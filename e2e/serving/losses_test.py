"""Losses that a service on two real nodes must survive while it is asked: python3 e2e/serving/losses_test.py

Each kind of worker ends in each way, nodes are drained one after the other, and (JANUS_SOAK=1) one is cut off. Clients ask
without a pause. No request may fail, and every answer to a prompt must be the same. A suspended service has no worker pods,
and resumes as it was.
"""

import json
import os
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import wait_for  # noqa: E402
from limits import TIMEOUT, limit  # noqa: E402
from served_case import OF_GATEWAYS, OF_WORKERS, ServedCase  # noqa: E402

SERVICE = "serving.janus.dev/service=demo"
HOST = "kubernetes.io/hostname"
# Spreads a role's pods over the nodes.
SPREAD = {"spec": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
    {"weight": 100, "podAffinityTerm": {
        "topologyKey": HOST, "matchLabelKeys": ["serving.janus.dev/role"],
        "labelSelector": {"matchLabels": {"serving.janus.dev/service": "demo"}}}}]}}}}


class LossesTest(ServedCase):
    def serve(self, attention, experts, gateway):
        self.apply("demo", "demo", gateway={"replicas": 2, **gateway},
                   roles={"attention": {"replicas": attention, "maxBatchSize": 16, "podTemplate": SPREAD},
                          "experts": {"replicas": experts, "podTemplate": SPREAD}})
        self.await_served("demo")
        self.size = attention + experts

    def worker(self, role):
        return next(pod for name, pod in sorted(self.living(OF_WORKERS).items()) if f"-{role}-" in name)

    def nodes_of(self, kind):
        return sorted(pod["spec"]["nodeName"] for pod in self.living(kind).values())

    def await_whole(self, epoch):
        """Waits until as many instances serve as are wanted, in a later epoch."""
        wait_for(lambda: self.epoch() > epoch and len(self.living(OF_WORKERS)) == self.size and self.is_ready(),
                 f"a whole service after epoch {epoch}")

    # Ways to lose a worker.

    def delete(self, pod):
        self.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")

    def delete_at_once(self, pod):
        self.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")

    def kill_container(self, pod):
        self.signal_container(pod, "SIGKILL")

    def test_workers_that_end_in_each_way_cost_no_request(self):
        self.serve(1, 2, {})
        askers = self.ask_demo(12)
        for role in ("attention", "experts"):
            for way in (self.delete, self.delete_at_once, self.kill_container):
                with self.subTest(f"{way.__name__} of {role}"):
                    epoch = self.epoch()
                    way(self.worker(role))
                    self.await_whole(epoch)
                    askers.await_more(6)
        self.check_answers(askers)

    def test_a_hung_worker_is_ended_by_its_liveness_probe(self):
        self.serve(1, 2, {})
        askers = self.ask_demo(12)
        for role in ("attention", "experts"):
            with self.subTest(role):
                pod, epoch = self.worker(role), self.epoch()
                since = time.monotonic()
                self.signal_container(pod, "SIGSTOP")
                if role == "attention":  # the only one
                    wait_for(lambda: not self.is_ready(), "a status that says it")
                    print(f"{role}: not Ready {time.monotonic() - since:.0f} s after it hung: "
                          f"{self.message('Ready')}", flush=True)
                self.await_whole(epoch)
                print(f"{role}: whole {time.monotonic() - since:.0f} s after it hung", flush=True)
                askers.await_more(6)
        self.check_answers(askers)  # not one waited for the pod's grace, 330 s: gateways give up after 300 s

    def test_a_hung_worker_is_left_out_while_others_of_its_role_serve(self):
        self.serve(2, 3, {})
        for role in ("attention", "experts"):
            with self.subTest(role):
                askers = self.ask_demo(12)
                self.await_short_deadlines()
                pod, epoch = self.worker(role), self.epoch()
                since = time.monotonic()
                self.signal_container(pod, "SIGSTOP")
                wait_for(lambda epoch=epoch: self.epoch() > epoch and not self.is_ready(), "an epoch without it")
                print(f"{role}: left out {time.monotonic() - since:.0f} s after it hung", flush=True)
                self.await_whole(epoch + 1)
                print(f"{role}: whole {time.monotonic() - since:.0f} s after it hung", flush=True)
                askers.await_more(6)
                self.check_answers(askers)

    def await_short_deadlines(self):
        """Until every member notices a missed round after about a second: before that after ten."""
        def holds():
            for pod in self.living(OF_WORKERS).values():
                text = self.nodes[0].box.run("curl", "-sf", f"http://{pod['status']['podIP']}:9100/metrics")
                if float(re.search(r"(?m)^janus_detection_deadline_seconds\S* (\S+)", text)[1]) > 2:
                    return False
            return True
        wait_for(holds, "short detection deadlines")

    def test_gateways_that_a_busy_node_delays_refuse_nobody(self):
        """They stand still for twelve seconds. Without them in its Service, clients would be refused instead of waiting."""
        self.serve(1, 2, {})
        askers = self.ask_demo(12)
        gateways = self.all_pods(OF_GATEWAYS)
        for pod in gateways:
            self.signal_container(pod, "SIGSTOP")
        time.sleep(12)  # the delay itself is tested
        ready = [ready for _, _, ready in self.states(OF_GATEWAYS).values()]
        for pod in gateways:
            self.signal_container(pod, "SIGCONT")
        self.assertEqual(ready, [["True"]] * 2)
        askers.await_more(12)
        self.check_answers(askers)

    def drain(self, node):
        self.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={limit(280)}s",
                     namespaced=False)

    def test_nodes_that_are_drained_one_after_the_other_cost_no_request(self):
        self.serve(1, 2, {})
        askers = self.ask_demo(12)
        for node, other in (("node2", "node1"), ("node1", "node2")):
            self.addCleanup(self.try_kubectl, "uncordon", node)
            self.drain(node)
            wait_for(lambda other=other: set(self.nodes_of(OF_WORKERS)) == {other}
                     and len(self.living(OF_WORKERS)) == self.size and self.is_ready(), f"all on {other}")
            self.kubectl("rollout", "status", "deployment/demo-gateway", TIMEOUT)
            self.assertEqual(self.nodes_of(OF_GATEWAYS), [other] * 2, "so that the next drain evicts both")
            askers.await_more(12)
            self.kubectl("uncordon", node, namespaced=False)
        self.check_answers(askers)

    def cut_off(self, node, is_cut):
        """Cuts the node's cable: its processes continue, but get no messages."""
        self.nodes[0].control_plane.box.run("ip", "link", "set", f"to-{node}", "down" if is_cut else "up")

    def give_back(self, node):
        self.cut_off(node, False)
        self.nodes[1].await_ready()

    def place_name_server(self, node):
        patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {HOST: node}}}}})
        self.kubectl("-n", "kube-system", "patch", "deployment", "coredns", "-p", patch, namespaced=False)
        self.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", TIMEOUT,
                     namespaced=False)

    @unittest.skipUnless("JANUS_SOAK" in os.environ, "two minutes, most of them until Kubernetes gives the node up")
    def test_a_node_that_is_cut_off_costs_no_request_of_gateways_elsewhere(self):
        # Includes the name server's node.
        self.place_name_server("node1")
        self.addCleanup(self.place_name_server, None)
        self.serve(2, 2, {"podTemplate": {"spec": {"nodeSelector": {HOST: "node1"}}}})
        self.assertEqual(self.nodes_of(OF_WORKERS), ["node1", "node1", "node2", "node2"])
        askers = self.ask_demo(12)
        epoch = self.epoch()
        self.addCleanup(self.give_back, "node2")
        self.cut_off("node2", True)
        wait_for(lambda: self.nodes_of(OF_WORKERS) == ["node1"] * 4, "others in the place of those that are lost")
        self.await_whole(epoch)
        askers.await_more(12)
        # When the node is back, its old pods are removed, as they are not wanted any more.
        epoch = self.epoch()
        self.give_back("node2")
        wait_for(lambda: len(self.all_pods(OF_WORKERS)) == self.size, "the lost ones' end")
        askers.await_more(12)
        self.assertEqual(self.epoch(), epoch)
        self.check_answers(askers)

    def answer(self):
        """HTTP status and body."""
        said = self.nodes[0].box.run("curl", "-s", "-w", "\n%{http_code}", "--json", json.dumps(
            {"model": "demo", "prompt": "It is a truth", "max_tokens": 16, "temperature": 0}),
            f"{self.url('demo')}/completions")
        body, status = said.rsplit("\n", 1)
        return int(status), json.loads(body)

    def test_a_service_that_sleeps_says_so_and_wakes_up_as_it_was(self):
        self.serve(1, 2, {})
        status, first = self.answer()
        self.assertEqual(status, 200, first)
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", '{"spec": {"suspend": true}}')
        wait_for(lambda: not self.all_pods(OF_WORKERS), "no workers")
        self.assertEqual(len(self.living(OF_GATEWAYS)), 2)
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", '{"spec": {"suspend": false}}')
        self.await_served("demo")
        status, again = self.answer()
        self.assertEqual((status, again["choices"]), (200, first["choices"]))
        self.kubectl("delete", "moesvc", "demo")
        wait_for(lambda: not self.get("pods,services,deployments,pdb,secrets,moetopologies,replicasets",
                                      "-l", SERVICE)["items"], "everything gone")


if __name__ == "__main__":
    unittest.main(verbosity=2)
