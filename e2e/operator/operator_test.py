"""janus-operator on a real API server, with fake pods: python3 e2e/operator/operator_test.py

The program is janus-operator except for its workers. They do at once what it asks, and together remember the highest
fence (tests/operator). The test reads the results from the API and from the server's audit log.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import ROOT, wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from operator_case import OperatorCase  # noqa: E402

OWNED = ("pods,services,serviceaccounts,secrets,deployments,poddisruptionbudgets,networkpolicies,moetopologies,"
         "moerolescalers")
SERVICE = "serving.janus.dev/service"


class OperatorTest(OperatorCase):
    def test_a_service_comes_up_changes_heals_and_goes(self):
        process = self.start("operator-0")
        self.apply(1, 2)
        self.await_whole(1, 2)
        self.assertEqual({one["metadata"]["name"] for one in self.get("services")["items"]}, {"demo", "demo-members"})
        self.assertEqual({one["metadata"]["name"]: one["spec"].get("minAvailable") for one in self.get("pdb")["items"]},
                         {"demo-attention": 1, "demo-experts": 2, "demo-gateway": None})
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        self.assertEqual(self.get("serviceaccount/demo-worker")["automountServiceAccountToken"], False)
        self.assertRegex(self.kubectl("get", "moesvc", "--no-headers"), r"(?m)^demo +.*\b1/1\b.*\b2/2\b.*\bTrue\b")
        described = self.kubectl("describe", "moesvc", "demo")
        for words in ("Type:                  Ready", "Created", "TopologyCommitted"):
            wait_for(lambda words=words: words in self.kubectl("describe", "moesvc", "demo"), f"'{words}' in {described}")

        self.apply(2, 4)
        self.await_whole(2, 4)
        self.apply(1, 3)
        self.await_whole(1, 3)
        lost = sorted(self.workers())[-1]
        self.kubectl("delete", "pod", lost, "--wait=false")
        wait_for(lambda: lost not in self.workers(), "the pod's end")
        self.await_whole(1, 3)
        self.check_books(7)

        names = set(self.metrics(process))
        told = {re.sub("_(sum|count)$", "", name) for name in names}
        page = (ROOT / "docs" / "metrics.md").read_text()
        self.assertEqual(told - set(re.findall(r"`(\w+)", page)), set(), "names that docs/metrics.md lacks")
        for name in ("controller_runtime_reconcile_total", "workqueue_adds_total", "rest_client_requests_total",
                     "leader_election_master_status", "janus_role_ready_replicas", "process_resident_memory_bytes"):
            self.assertIn(name, names)

        self.kubectl("delete", "moesvc", "demo")
        wait_for(lambda: not [one for one in self.get(OWNED)["items"] if SERVICE in one["metadata"].get("labels", {})],
                 "everything gone")
        process.terminate()
        self.assertEqual(process.wait(), 0)
        self.assertEqual(self.get("lease/janus-operator")["spec"].get("holderIdentity", ""), "")

    def test_what_is_as_wanted_is_left_alone(self):
        process = self.start("operator-0", "--leader-election=false")
        self.apply(1, 2)
        self.await_whole(1, 2)
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        # `kubectl diff` exits with 1 if there is a difference.
        self.kubectl("diff", "-f", "-", text=self.object(1, 2))
        wait_for(lambda: self.metrics(process)["janus_events_waiting"] == 0, "all Events written")

        def passes():
            return self.metrics(process)["controller_runtime_reconcile_time_seconds_count"]

        # Waits for a pass after everything was seen. After that, applying again or annotating changes nothing.
        for text in ("1", "2"):
            before, count = self.writes(), passes()
            self.kubectl("apply", "-f", "-", text=self.object(1, 2))
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=self.object(1, 2))
            self.kubectl("annotate", "--overwrite", "moesvc", "demo", f"touched={text}")
            wait_for(lambda count=count: passes() > count, "a pass")
        self.assertEqual(self.writes(), before)

        def requests():
            """Requests, without watches that the server ended."""
            values = self.metrics(process)
            return values["rest_client_requests_total"] - values["reflector_watches_total"]

        idle = requests()
        self.assertRaises(subprocess.TimeoutExpired, process.wait, 10)
        self.assertEqual(requests(), idle, "requests of an operator with nothing to do")

    def test_its_doors_are_closed_and_opened_as_it_asks(self):
        """Checks only the objects: the cluster's network does not enforce them."""
        self.start("operator-0")
        demo = json.loads(self.object(1, 2))
        demo["spec"]["security"] = {"networkPolicy": True}
        self.kubectl("apply", "-f", "-", text=json.dumps(demo))
        self.await_whole(1, 2)
        pods = set(self.workers())

        def policies():
            return {one["metadata"]["name"]: one for one in self.get("networkpolicies")["items"]}

        def taken(selector):
            """Names of the pods that it selects, as the server reports."""
            labels = ",".join(f"{name}={value}" for name, value in selector["matchLabels"].items())
            return set(self.kubectl("get", "pods", "-l", labels, "-o", "name").split())

        made = policies()
        self.assertEqual(set(made), {"demo-workers", "demo-gateway"})
        self.assertEqual(taken(made["demo-workers"]["spec"]["podSelector"]), {f"pod/{name}" for name in pods})
        self.assertEqual(len(taken(made["demo-gateway"]["spec"]["podSelector"])), 2)
        # The operator as the chart installs it, under any name.
        peer = made["demo-workers"]["spec"]["ingress"][0]["from"][2]
        self.assertEqual(peer["namespaceSelector"]["matchLabels"], {"kubernetes.io/metadata.name": self.namespace})
        chart = subprocess.run(
            [(self.state_folder() / "programs").resolve() / "helm", "template", "named",
             ROOT / "charts" / "janus-operator", "--set", "image.pullPolicy=Never,nameOverride=another",
             "--show-only", "templates/deployment.yaml"], capture_output=True, text=True, check=True).stdout
        installed = json.loads(self.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", text=chart,
                                            namespaced=False))
        labels = installed["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(peer["podSelector"]["matchLabels"].items(), labels.items())
        # kubectl's description shows what the policy means to a user.
        described = self.kubectl("describe", "networkpolicy", "demo-workers")
        for words in ("To Port: 9000/TCP", "To Port: 9001/TCP", "Not affecting egress traffic"):
            self.assertIn(words, described)

        self.kubectl("patch", "networkpolicy", "demo-workers", "--type=merge", "-p", '{"spec":{"ingress":[{}]}}')
        self.kubectl("delete", "networkpolicy", "demo-gateway")
        wait_for(lambda: {name: one["spec"] for name, one in policies().items()} ==
                 {name: one["spec"] for name, one in made.items()}, "both as they were")
        self.apply(1, 2)
        wait_for(lambda: not policies(), "their end")
        self.await_whole(1, 2)
        self.assertEqual(set(self.workers()), pods)

    def test_what_cannot_be_is_said(self):
        self.start("operator-0")
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"},
            "spec": {"model": {"source": {"type": "HuggingFace", "huggingFace": {"repo": "a/b"}}},
                     "roles": {"experts": {"tensorParallel": 2}},
                     "slo": {"tpot": {"targetMilliseconds": 60}}}}))
        self.kubectl("wait", "--for=condition=Stalled", "moesvc/demo", TIMEOUT)
        stalled = [one for one in self.get("moesvc/demo")["status"]["conditions"] if one["type"] == "Stalled"][0]
        self.assertEqual(stalled["reason"], "NotSupported")
        self.assertIn("spec.roles.experts.tensorParallel: 2 is not supported by this version; use 1",
                      stalled["message"])

    def test_a_template_that_the_server_does_not_take_is_an_invalid_spec(self):
        """A refused apply of the gateway's Deployment (500) is reported like a refused create of a worker's pod (422)."""
        process = self.start("operator-0")
        for where in ({"gateway": {"podTemplate": {"spec": {"containers": [{"name": "gateway", "bogusField": 1}]}}}},
                      {"gateway": {"podTemplate": {"spec": {"containers": [
                          {"name": "gateway", "resources": {"requests": {"cpu": "much"}}}]}}}},
                      {"roles": {"experts": {"podTemplate": {"spec": {"containers": [
                          {"name": "worker", "bogusField": 1}]}}}}}):
            with self.subTest(where):
                self.apply(1, 2)
                self.await_whole(1, 2)
                self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", json.dumps({"spec": where}))

                def stalled():
                    service = self.get("moesvc/demo")
                    return next((one for one in service["status"]["conditions"] if one["type"] == "Stalled"
                                 and one["status"] == "True"), None)
                wait_for(stalled, "Stalled")
                self.assertEqual(stalled()["reason"], "InvalidSpec")
                self.assertRegex(stalled()["message"], "bogusField|quantit")
                role = next(iter(where))
                self.kubectl("patch", "moesvc", "demo", "--type=json", "-p", json.dumps(
                    [{"op": "remove", "path": "/spec/gateway" if role == "gateway" else "/spec/roles/experts/podTemplate"}]))
                wait_for(self.is_ready, "Ready again")
        self.assertGreater(self.metrics(process)["controller_runtime_reconcile_total"], 0)

    def test_pods_may_wait_in_a_queue(self):
        """Queues of Kueue and the like: here the template has what their webhook would add."""
        self.start("operator-0")
        demo = json.loads(self.object(1, 2))
        for role, queue in (("attention", "a"), ("experts", "b")):
            demo["spec"]["roles"][role] |= {
                "schedulerName": "default-scheduler",
                "podTemplate": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue},
                                             "annotations": {"scheduling.volcano.sh/queue-name": queue}},
                                "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}}
        self.kubectl("apply", "-f", "-", text=json.dumps(demo))
        self.kubectl("wait", "--for=condition=CapacityAvailable=False", "moesvc/demo", TIMEOUT)
        said = [one for one in self.get("moesvc/demo")["status"]["conditions"] if one["type"] == "CapacityAvailable"][0]
        self.assertEqual(said["reason"], "InsufficientCapacity")
        self.assertIn("scheduling gates", said["message"])
        wait_for(lambda: len(self.workers()) == 3, "all pods")
        for name, pod in self.workers().items():
            queue = "a" if "-attention-" in name else "b"
            self.assertEqual(pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], queue)
            self.assertEqual(pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"], queue)
            self.kubectl("patch", "pod", name, "--type=json", "-p",
                         '[{"op": "remove", "path": "/spec/schedulingGates"}]')
        self.await_whole(1, 2)

    def lose_leader(self, how):
        """Two operators; the leader is lost while it starts the service. Returns the processes, the lost one first."""
        operators = {name: self.start(name) for name in ("operator-0", "operator-1")}
        holder = wait_for(lambda: self.try_kubectl(
            "-n", self.namespace, "get", "lease", "janus-operator", "-o",
            "jsonpath={.spec.holderIdentity}").stdout, "a leader")
        leader = operators.pop(holder.split("_")[0])
        self.apply(2, 4)
        wait_for(self.created_pods, "a pod")
        leader.send_signal(how)
        return leader, *operators.values()

    def test_a_leader_that_is_ended_hands_over(self):
        leader, _ = self.lose_leader(signal.SIGTERM)
        self.assertEqual(leader.wait(), 0)
        self.await_whole(2, 4)
        self.check_books(6)

    def test_a_leader_that_is_killed_is_followed(self):
        self.lose_leader(signal.SIGKILL)
        self.await_whole(2, 4)
        self.check_books(6)

    def test_a_leader_that_slept_through_its_term_does_no_harm(self):
        leader, _ = self.lose_leader(signal.SIGSTOP)
        self.await_whole(2, 4)
        leader.send_signal(signal.SIGCONT)
        wait_for(lambda: self.page(leader.health, "healthz")[0] == 200, "it to be awake")
        self.apply(1, 5)
        self.await_whole(1, 5)
        self.check_books(7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
