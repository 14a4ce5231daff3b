"""A service in pods of four instances, on two real nodes: python3 e2e/serving/several_instances_test.py

One instance of a pod ends or hangs, whole pods are killed and deleted, a node is drained, and the counts and the revision
change. Clients ask without a pause. No request may fail, and every answer must be the one of a service in pods of one instance.
"""

import json
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from askers import PROMPTS, Askers  # noqa: E402
from cluster_case import wait_for  # noqa: E402
from limits import limit  # noqa: E402
from served_case import OF_WORKERS, ServedCase  # noqa: E402

SIZE = "serving.janus.dev/instances"
PODS_OF_FOUR = {"attention": [4], "experts": [4]}


class SeveralInstancesTest(ServedCase):
    alone = None  # the answers of a service in pods of one instance

    def serve(self):
        """A service in two pods of four. Returns clients that ask it."""
        self.note_answers_alone()
        self.apply("demo", "demo", gateway={"replicas": 2},
                   roles={"attention": {"replicas": 4, "maxBatchSize": 16, "instancesPerPod": 4},
                          "experts": {"replicas": 4, "instancesPerPod": 4}})
        self.await_served("demo")
        self.assertEqual(self.sizes(), PODS_OF_FOUR)
        return self.ask_demo(12)

    def note_answers_alone(self):
        if SeveralInstancesTest.alone:
            return
        self.apply("alone", "demo", served_as="demo", roles={"attention": {"replicas": 1}, "experts": {"replicas": 1}})
        self.await_served("alone")
        askers = Askers(self.nodes[0], self.url("alone"), count=1)
        self.addCleanup(askers.close)
        askers.await_more(2 * len(PROMPTS))
        SeveralInstancesTest.alone = self.check_answers(askers)
        self.kubectl("delete", "moesvc", "alone", "--wait=false")

    def check_as_alone(self, askers):
        self.assertEqual(self.check_answers(askers), self.alone)

    def patch_roles(self, **roles):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", json.dumps({"spec": {"roles": roles}}))

    def sizes(self):
        """Instances of each pod, by role."""
        found = {"attention": [], "experts": []}
        for pod in self.living(OF_WORKERS).values():
            labels = pod["metadata"]["labels"]
            found[labels["serving.janus.dev/role"]].append(int(labels.get(SIZE, 1)))
        return {role: sorted(sizes, reverse=True) for role, sizes in found.items()}

    def await_whole(self, epoch, sizes):
        wait_for(lambda: self.epoch() > epoch and self.is_ready() and self.sizes() == sizes,
                 f"pods of {sizes} after epoch {epoch}")

    def pod_of(self, role):
        return next(pod for name, pod in sorted(self.living(OF_WORKERS).items())
                    if f"-{role}-" in name and SIZE in pod["metadata"]["labels"])

    def node_of(self, pod):
        node, = (one for one in self.nodes if one.name == pod["spec"]["nodeName"])
        return node

    def kill_second(self, pod, signal):
        """The second instance of a pod, which is a process of its own."""
        self.node_of(pod).box.run("pkill", f"-{signal}", "-f", f"listen={pod['status']['podIP']}:9010")

    def test_one_instance_of_a_pod_ends(self):
        askers = self.serve()
        before = self.states(OF_WORKERS)
        for role in ("experts", "attention"):
            with self.subTest(role):
                epoch, began = self.epoch(), time.monotonic()
                self.kill_second(self.pod_of(role), "KILL")
                self.await_whole(epoch, PODS_OF_FOUR)
                print(f"{role}: whole {time.monotonic() - began:.0f} s after one instance ended", flush=True)
                askers.await_more(6)
        self.assertEqual({name: state[:2] for name, state in self.states(OF_WORKERS).items()},
                         {name: state[:2] for name, state in before.items()}, "no pod and no container is new")
        self.check_as_alone(askers)

    def test_an_instance_that_hangs_is_started_again_in_its_pod(self):
        askers = self.serve()
        epoch, began = self.epoch(), time.monotonic()
        self.kill_second(self.pod_of("experts"), "STOP")
        self.await_whole(epoch, PODS_OF_FOUR)
        print(f"whole {time.monotonic() - began:.0f} s after it hung", flush=True)
        askers.await_more(6)
        self.check_as_alone(askers)

    def test_pods_are_killed_and_deleted(self):
        askers = self.serve()
        for role in ("experts", "attention"):
            for what in ("killed", "deleted"):
                with self.subTest(f"a pod of {role} is {what}"):
                    epoch, began, pod = self.epoch(), time.monotonic(), self.pod_of(role)
                    if what == "killed":
                        self.signal_container(pod, "KILL")
                    else:
                        self.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
                    self.await_whole(epoch, PODS_OF_FOUR)
                    print(f"{role}: whole {time.monotonic() - began:.0f} s after a pod was {what}", flush=True)
                    askers.await_more(6)
        self.check_as_alone(askers)

    def test_pods_are_resized_and_rolled(self):
        askers = self.serve()
        for attention, experts, sizes in ((4, 8, {"attention": [4], "experts": [4, 4]}),
                                          (5, 5, {"attention": [4, 1], "experts": [4, 1]}),
                                          (3, 4, {"attention": [3], "experts": [4]}),
                                          (4, 4, PODS_OF_FOUR)):
            with self.subTest(f"{attention}A{experts}E"):
                epoch = self.epoch()
                self.patch_roles(attention={"replicas": attention}, experts={"replicas": experts})
                self.await_whole(epoch, sizes)
                askers.await_more(6)
        with self.subTest("another revision"):
            epoch, before = self.epoch(), self.living(OF_WORKERS)
            template = {"podTemplate": {"metadata": {"annotations": {"test": "another revision"}}}}
            self.patch_roles(attention=template, experts=template)
            wait_for(lambda: not before.keys() & self.living(OF_WORKERS).keys(), "other pods")
            self.await_whole(epoch, PODS_OF_FOUR)
            askers.await_more(6)
        with self.subTest("pods of one instance"):
            epoch = self.epoch()
            self.patch_roles(experts={"instancesPerPod": 1})
            self.await_whole(epoch, {"attention": [4], "experts": [1, 1, 1, 1]})
            askers.await_more(6)
        self.check_as_alone(askers)

    def links(self, pod):
        """How the instance of a pod reaches its peers."""
        return [way.split("/")[0] for way in
                re.findall(r'^janus_exchange_link_info{.*transport="([^"]*)".*} 1$', self.page(pod["metadata"]["name"]), re.M)]

    def test_pods_of_a_machine_share_memory(self):
        self.note_answers_alone()
        self.apply("demo", "demo", gateway={"replicas": 2}, exchange={"hostShared": True, "mode": "TwoPhaseParallel"},
                   roles={"attention": {"replicas": 2, "maxBatchSize": 16}, "experts": {"replicas": 4}})
        self.await_served("demo")
        askers = self.ask_demo(12)

        def check():
            pods = list(self.living(OF_WORKERS).values())
            nodes = [pod["spec"]["nodeName"] for pod in pods]
            self.assertEqual(set(nodes), {node.name for node in self.nodes}, "pods are on both machines")
            for pod, node in zip(pods, nodes):
                self.assertEqual(self.links(pod).count("shared memory"), nodes.count(node) - 1, "its mates on the machine")
                self.assertIn("UCX tcp", self.links(pod))

        askers.await_more(6)
        check()
        self.assertEqual(self.get("moesvc/demo")["status"]["effective"]["exchangeMode"], "TwoPhaseParallel")
        epoch = self.epoch()
        self.kubectl("delete", "pod", next(iter(self.living(OF_WORKERS))), "--wait=false")
        wait_for(lambda: self.epoch() > epoch and self.is_ready(), "another pod in its place")
        askers.await_more(6)
        check()
        self.check_as_alone(askers)

    def test_a_node_is_drained(self):
        askers = self.serve()
        node = self.pod_of("experts")["spec"]["nodeName"]
        self.addCleanup(self.try_kubectl, "uncordon", node)
        self.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={limit(280)}s",
                     namespaced=False)
        wait_for(lambda: self.is_ready() and all(pod["spec"]["nodeName"] != node
                                                 for pod in self.living(OF_WORKERS).values()), "all on the other node")
        askers.await_more(12)
        self.assertEqual(self.sizes(), PODS_OF_FOUR)
        self.check_as_alone(askers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
