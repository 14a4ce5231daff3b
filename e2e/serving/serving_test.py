"""Services in real pods on two nodes, from images of this machine's programs: python3 e2e/serving/serving_test.py

It checks the golden continuations. Clients must notice nothing while the operator is away (JANUS_SOAK=1: for ten minutes),
becomes another release, or replaces the gateways. They ask without a pause. No request may fail, and every answer to a
prompt must be the same.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "integration" / "serve"))

from cluster_case import ROOT, wait_for  # noqa: E402
from images_case import CHART, REGISTRY  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from served_case import OF_GATEWAYS, OF_WORKERS, ServedCase  # noqa: E402
from serving import GOLDEN, Service, copy_golden  # noqa: E402

IS_SOAK = "JANUS_SOAK" in os.environ
SECONDS_WITHOUT = 600  # in the long form
FAMILIES = ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v2_lite", "deepseek_v3")


def apart(service):
    """No two pods of a role on the same node."""
    return {"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["serving.janus.dev/role"],
         "labelSelector": {"matchLabels": {"serving.janus.dev/service": service}}}]}}}}


class ServingTest(ServedCase):
    # A service that is asked without a pause.

    def serve_demo(self):
        self.apply("demo", "demo", gateway={"replicas": 2},
                   roles={"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 2}})
        self.await_served("demo")
        return self.ask_demo(12)

    def is_holding(self, pod):
        return re.search(r"^janus_holding(?:{.*})? 1$", self.page(pod), re.M) is not None

    def troubles_since(self, moment):
        """Warnings and errors of the service's pods."""
        said = self.kubectl("logs", "-l", "serving.janus.dev/service=demo", "--prefix", "--tail=-1",
                            f"--since-time={moment}")
        return [line for line in said.splitlines() if re.search(r"level=(warn|error)", line)]

    # Without an operator.

    def scale_operator(self, replicas):
        self.kubectl("-n", "janus-system", "scale", "deployment/janus-operator", f"--replicas={replicas}",
                     namespaced=False)

    def test_nobody_misses_an_operator_that_is_away(self):
        askers = self.serve_demo()
        self.addCleanup(self.scale_operator, 2)
        workers, gateways = self.states(OF_WORKERS), self.states(OF_GATEWAYS)
        self.scale_operator(0)
        wait_for(lambda: not self.operators(), "no operator")
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        objects = self.get("moesvc,moetopologies,pdb,services,deployments")
        if IS_SOAK:
            time.sleep(SECONDS_WITHOUT)  # the duration itself is tested
        askers.await_more(60)
        self.assertEqual(self.get("moesvc,moetopologies,pdb,services,deployments"), objects)
        self.assertEqual((self.states(OF_WORKERS), self.states(OF_GATEWAYS)), (workers, gateways))
        self.assertEqual(self.troubles_since(moment), [])

        # Failures: a gateway pod is replaced by its Deployment and learns the topology from workers.
        first = sorted(gateways)[0]
        self.kubectl("delete", "pod", first)
        self.kubectl("rollout", "status", "deployment/demo-gateway", TIMEOUT)
        askers.await_more(12)
        self.kubectl("delete", "pdb", "demo-experts")
        self.kubectl("patch", "service", "demo-members", "--type=merge", "-p",
                     '{"spec": {"publishNotReadyAddresses": false}}')
        attention, lost = (next(name for name in workers if f"-{role}-" in name) for role in ("attention", "experts"))
        self.kubectl("delete", "pod", lost, "--grace-period=0", "--force")
        wait_for(lambda: self.is_holding(attention), "the loss to be seen")
        self.assertEqual(len(self.states(OF_WORKERS)), 2, "somebody replaced it")

        self.scale_operator(2)
        wait_for(lambda: len(self.states(OF_WORKERS)) == 3 and self.is_ready(), "a whole service")
        askers.await_more(12)
        wait_for(lambda: self.try_kubectl("-n", self.namespace, "get", "pdb", "demo-experts").returncode == 0,
                 "the budget that was deleted")
        wait_for(lambda: self.get("service/demo-members")["spec"].get("publishNotReadyAddresses"),
                 "the Service that was changed")
        there = self.states(OF_WORKERS)
        del workers[lost]
        self.assertEqual({name: there.get(name) for name in workers}, workers)
        self.check_answers(askers)

    # Another operator.

    def newer_chart(self):
        """The chart as a later version, with the images of this one."""
        folder = ROOT / "build" / "e2e" / self.namespace / "newer"
        shutil.copytree(CHART, folder)
        path = folder / "Chart.yaml"
        version = re.search(r"^appVersion: (\S+)$", path.read_text(), re.M)[1]
        text = re.sub(r"^(appVersion|version): \S+$", r"\1: 99.0.0", path.read_text(), flags=re.M)
        self.assertEqual(text.count("99.0.0"), 2)
        path.write_text(text)
        for node in self.nodes:
            for image in ("operator", "gateway", "worker-cpu"):
                node.ctr("images", "tag", "--force", f"{REGISTRY}/janus/{image}:{version}",
                         f"{REGISTRY}/janus/{image}:99.0.0")
        return folder, version

    def await_leader_among(self, pods):
        """One of them leads and manages the service."""
        def leads():
            pages = [self.nodes[0].box.run("curl", "-s", f"http://{pod['status']['podIP']}:8080/metrics")
                     for pod in pods]
            return any(re.search(rf'^janus_topology_epoch{{[^}}]*namespace="{self.namespace}"', page, re.M)
                       for page in pages)
        wait_for(leads, "a pass of the other operator")

    def change_operator(self, *words):
        """Waits until all its pods are new, and one of them has processed the service."""
        before = {pod["metadata"]["uid"] for pod in self.operators()}
        self.helm(*words, "--wait", TIMEOUT)
        wait_for(lambda: not before & {pod["metadata"]["uid"] for pod in self.operators()}, "the earlier ones' end")
        self.await_leader_among(self.operators())

    def test_another_release_of_the_operator_and_the_one_before_move_nothing(self):
        newer, version = self.newer_chart()
        revision = json.loads(self.helm("history", "janus-operator", "-o", "json"))[-1]["revision"]
        askers = self.serve_demo()
        self.addCleanup(self.try_helm, "rollback", "janus-operator", revision, "--wait", TIMEOUT)
        state = self.states(OF_WORKERS), self.states(OF_GATEWAYS), self.epoch()
        # The default image of workers is different, too. Gateways have the operator's version unless it is set.
        self.change_operator("upgrade", "janus-operator", newer, *self.settings(
            podLabels__team="serving", debug="true", workers=2, api__qps=20, resources__requests__cpu="50m",
            certificates__leafSeconds=86400, defaults__gatewayImage__tag=version))
        image = f"{REGISTRY}/janus/operator:99.0.0"
        self.assertEqual({(pod["metadata"]["labels"]["team"], pod["spec"]["containers"][0]["image"])
                          for pod in self.operators()}, {("serving", image)})
        askers.await_more(12)
        self.change_operator("rollback", "janus-operator", revision)
        askers.await_more(12)
        self.assertEqual((self.states(OF_WORKERS), self.states(OF_GATEWAYS), self.epoch()), state)
        self.check_answers(askers)

    def test_gateways_that_are_replaced_refuse_nobody(self):
        askers = self.serve_demo()
        workers, gateways, epoch = self.states(OF_WORKERS), self.states(OF_GATEWAYS), self.epoch()
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     '{"spec": {"gateway": {"limits": {"openStreams": 2048}}}}')
        wait_for(lambda: len(self.states(OF_GATEWAYS)) == 2 and not set(self.states(OF_GATEWAYS)) & set(gateways),
                 "others in their place")
        askers.await_more(12)
        self.assertEqual((self.states(OF_WORKERS), self.epoch()), (workers, epoch))
        self.check_answers(askers)

    # Golden continuations.

    def serve_here(self, family, bodies):
        """The answers of `janusctl serve`."""
        local = Service()
        local.open(functools.partial(copy_golden, family=family))
        self.addCleanup(local.close)
        local.serve_object({"model": {"source": {"type": "HostPath", "hostPath": {"path": str(local.model)}}},
                            "roles": {"attention": {"replicas": 1}, "experts": {"replicas": 2}}})
        answers = [local.post(body)["choices"][0]["token_ids"] for body in bodies]
        local.stop()
        return answers

    def all_exchange_for(self, service, bodies, wanted, instances=4):
        """Sends the requests at once. Returns whether each worker has sent rows or contributions after the answers."""
        def ask(body):
            said = self.nodes[0].box.run("curl", "-sf", "--json", json.dumps(body), f"{self.url(service)}/completions")
            return json.loads(said)["choices"][0]["token_ids"]
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            self.assertEqual(list(pool.map(ask, bodies)), wanted)
        sent = [number for name in self.states(OF_WORKERS, service) for number in re.findall(
            r'^janus_exchange_bytes_total{.*direction="sent".*} (\S+)$', self.page(name), re.M)]
        return len(sent) == instances and all(float(number) > 0 for number in sent)

    def links(self, service):
        """How workers are connected to those on the other node: (role and rank, theirs, transport)."""
        pods = {pod["metadata"]["uid"]: pod for pod in self.get("pods", "-l", OF_WORKERS)["items"]}
        topology = self.get(f"moetopology/{self.get(f'moesvc/{service}')['status']['topology']['name']}")
        members, ranks = {}, {"attention": 0, "experts": 0}
        for one in topology["spec"]["committed"]["instances"]:
            members[f"{one['role']} {ranks[one['role']]}"] = pods[one["podUID"]]
            ranks[one["role"]] += 1
        found = []
        for own, pod in members.items():
            for labels in re.findall(r"^janus_exchange_link_info{(.*)} 1$", self.page(pod["metadata"]["name"]), re.M):
                peer, transport = (re.search(rf'{label}="([^"]*)"', labels)[1] for label in ("peer", "transport"))
                if members[peer]["spec"]["nodeName"] != pod["spec"]["nodeName"]:
                    found.append((own, peer, transport))
        return found

    def test_golden_continuations_of_pods_with_several_instances(self):
        copy_golden(self.models / "several", "mixtral")
        role = {"instancesPerPod": 2, "podTemplate": apart("several")}
        self.apply("several", "several", gateway={"replicas": 1}, exchange={"mode": "TwoPhaseParallel"},
                   roles={"attention": {**role, "replicas": 3, "maxBatchSize": 16}, "experts": {**role, "replicas": 4}})
        cases = [case for case in json.loads((GOLDEN / "mixtral" / "golden.json").read_text())["cases"]
                 if case["config"] == "config.json"]
        self.await_served("several")
        self.assertEqual(len(self.states(OF_WORKERS, "several")), 4, "two pods of each role")
        bodies = [{"temperature": 0, "return_token_ids": True, "model": "several", "prompt": case["prompt"],
                   "max_tokens": len(case["greedy_ids"])} for case in cases]
        wanted = [case["greedy_ids"] for case in cases]
        wait_for(functools.partial(self.all_exchange_for, "several", bodies, wanted, instances=7),
                 "each instance to have its part in an answer")
        self.assertEqual(self.get("moesvc/several")["status"]["effective"]["exchangeMode"], "TwoPhaseParallel")
        ways = set()
        for name in self.states(OF_WORKERS, "several"):
            ways |= set(re.findall(r'^janus_exchange_link_info{.*transport="([^"]*)".*} 1$', self.page(name), re.M))
        self.assertEqual({way.split("/")[0] for way in ways}, {"shared memory", "UCX tcp"},
                         "within a pod, and between pods")

    def test_golden_continuations_over_two_nodes_are_those_of_one_machine(self):
        services = {family.replace("_", "-"): family for family in FAMILIES}
        for service, family in services.items():
            copy_golden(self.models / family, family)
            role = {"replicas": 2, "podTemplate": apart(service)}
            self.apply(service, family, roles={"attention": {**role, "maxBatchSize": 16}, "experts": role},
                       gateway={"replicas": 1})
        for service, family in services.items():
            cases = [case for case in json.loads((GOLDEN / family / "golden.json").read_text())["cases"]
                     if case["config"] == "config.json"]
            self.assertEqual([len(case["prompt"]) for case in cases], [1, 17, 300])
            wanted = [case["greedy_ids"] for case in cases]
            body = {"temperature": 0, "return_token_ids": True}
            bodies = [{**body, "prompt": case["prompt"], "max_tokens": len(case["greedy_ids"])} for case in cases]
            self.assertEqual(self.serve_here(family, [{**one, "model": "golden"} for one in bodies]), wanted)

            self.await_served(service)
            bodies = [{**one, "model": service} for one in bodies]
            wait_for(functools.partial(self.all_exchange_for, service, bodies, wanted),
                     "each instance to have its part in an answer")
            links = self.links(service)
            # An attention instance connects to both expert instances of the other node, an expert instance to the
            # attention instance there.
            self.assertEqual(len(links), 6, links)
            for own, peer, transport in links:
                self.assertRegex(transport, "^UCX tcp/", f"from {own} to {peer} of {service}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
