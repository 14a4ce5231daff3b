"""Mode External on a real API server, with fake pods: python3 e2e/scale/scale_test.py

kubectl scales, and so do the HorizontalPodAutoscalers of examples/autoscaling. An adapter in the test serves their metrics
by aggregation (support/external_metrics.py). The operator is that of operator/operator_test.py.
"""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import ROOT, wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from metrics_adapter import MetricsAdapter  # noqa: E402
from operator_case import OperatorCase  # noqa: E402

EXAMPLES = ROOT / "examples" / "autoscaling"


class ScaleTest(OperatorCase):
    def setUp(self):
        super().setUp()
        self.operator = self.start("operator-0", "--leader-election=false")
        self.kubectl("apply", "-f", "-", text=self.service())
        self.await_whole(1, 2)
        self.first = {name: pod["metadata"]["uid"] for name, pod in self.workers().items()}

    def service(self):
        """The example, with the model of this machine."""
        text = (EXAMPLES / "service.yaml").read_text()
        self.assertIn("path: /models/demo}", text)
        return text.replace("/models/demo}", f"{ROOT}/examples/demo-model}}")

    def condition(self, what, kind):
        """(status, reason, message)."""
        for one in self.get(what).get("status", {}).get("conditions", []):
            if one["type"] == kind:
                return one["status"], one["reason"], one["message"]
        return None, None, None

    def await_condition(self, what, kind, status, reason):
        wait_for(lambda: self.condition(what, kind)[:2] == (status, reason), f"{kind} of {what}: {status}, {reason}")

    def await_scaled(self, attention, experts):
        """Complete, as the scalers report it, and with all pods of the beginning."""
        def holds():
            return [self.get(f"mrs/demo-{role}").get("status", {}).get("replicas")
                    for role in ("attention", "experts")] == [attention, experts]
        wait_for(holds, f"{attention}A{experts}E of the scalers")
        self.await_whole(attention, experts)
        there = {name: pod["metadata"]["uid"] for name, pod in self.workers().items()}
        self.assertEqual({**there, **self.first}, there, "somebody was replaced")

    def told(self, reason):
        """Notes of the operator's Events, from its log: the server accepts only some events per object and time."""
        return re.findall(rf'message="event" .*reason={reason} note="([^"]*)"',
                          (self.folder / "operator-0.log").read_text())

    def writes_of_scalers(self):
        """(verb, subresource) of each write of the operator to scalers."""
        return {(one["verb"], one["objectRef"].get("subresource", "")) for one in self.audited("janus-operator")
                if one["objectRef"]["resource"] == "moerolescalers"
                and one["verb"] not in ("get", "list", "watch")}

    def test_kubectl_scales_each_role_for_itself(self):
        self.assertRegex(self.kubectl("get", "mrs", "--no-headers"),
                         r"(?m)^demo-attention +demo +attention +1 +1 .*\n^demo-experts +demo +experts +2 +2 ")
        self.kubectl("scale", "moerolescaler", "demo-experts", "--replicas=4")
        self.kubectl("wait", "--for=jsonpath={.status.replicas}=4", "mrs/demo-experts", TIMEOUT)
        self.kubectl("wait", "--for=condition=Ready", "mrs/demo-experts", TIMEOUT)
        self.await_scaled(1, 4)
        self.kubectl("scale", "moerolescaler", "demo-attention", "--current-replicas=1", "--replicas=3")
        self.await_scaled(3, 4)
        self.assertEqual(self.told("ScaledUp"), ["experts: from 2 to 4 instances", "attention: from 1 to 3 instances"])
        wait_for(lambda: "ScaledUp" in self.kubectl("describe", "moesvc", "demo"), "an Event ScaledUp")
        self.assertEqual(self.condition("moesvc/demo", "ScalingReady")[:2], ("True", "External"))

        # More than the service allows.
        self.kubectl("scale", "mrs/demo-attention", "--replicas=99")
        self.await_condition("moesvc/demo", "ScalingReady", "True", "AtMax")
        self.assertEqual(self.condition("moesvc/demo", "ScalingReady")[2],
                         "MoERoleScaler demo-attention asks for 99; spec.roles.attention.scaling.maxReplicas is 8")
        self.kubectl("scale", "mrs/demo-attention", "--replicas=0")
        self.await_condition("mrs/demo-attention", "Ready", "True", "AtMin")
        self.kubectl("scale", "mrs/demo-experts", "--replicas=2")
        self.await_scaled(1, 2)
        self.assertIn("experts: from 4 to 2 instances", self.told("ScaledDown"))
        self.assertEqual(self.get("mrs/demo-attention")["spec"]["replicas"], 0, "the operator has written it")
        # Created once; since then only its status was written.
        self.assertEqual(self.writes_of_scalers(), {("create", ""), ("update", "status")})
        self.kubectl("autoscale", "moerolescaler", "demo-experts", "--min=2", "--max=4", "--cpu=50%")
        wait_for(lambda: self.condition("hpa/demo-experts", "AbleToScale")[0] == "True", "an HPA that reads /scale")

    def test_a_role_enters_the_mode_and_leaves_it_with_its_count(self):
        self.kubectl("scale", "mrs/demo-experts", "--replicas=3")
        self.await_scaled(1, 3)
        epoch = self.get("moesvc/demo")["status"]["topology"]["epoch"]
        fixed, external = ({"replicas": 3, "scaling": None}, {"replicas": None, "scaling": {"mode": "External"}})
        for experts, scalers in ((fixed, ["demo-attention"]), (external, ["demo-attention", "demo-experts"])):
            self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                         json.dumps({"spec": {"roles": {"experts": experts}}}))
            wait_for(lambda scalers=scalers: [one["metadata"]["name"] for one in self.get("mrs")["items"]] == scalers,
                     f"just {scalers}")
            self.await_whole(1, 3)
        self.await_scaled(1, 3)
        self.assertEqual(self.get("mrs/demo-experts")["spec"]["replicas"], 3)
        self.assertEqual(self.get("moesvc/demo")["status"]["topology"]["epoch"], epoch)
        self.kubectl("delete", "moesvc", "demo")
        wait_for(lambda: not self.get("mrs")["items"], "the scalers' end")

    def test_who_applies_the_service_again_does_not_scale_it(self):
        self.kubectl("scale", "mrs/demo-experts", "--replicas=3")
        self.await_scaled(1, 3)
        wait_for(lambda: self.get("deployment/demo-gateway")["status"].get("availableReplicas") == 2, "gateways")
        wait_for(lambda: self.metrics(self.operator)["janus_events_waiting"] == 0, "all Events written")
        before = self.writes()
        for words in (("apply",), ("apply", "--server-side", "--force-conflicts"), ("diff",)):
            self.kubectl(*words, "-f", "-", text=self.service())
        passes = self.metrics(self.operator)["controller_runtime_reconcile_time_seconds_count"]
        self.kubectl("annotate", "moesvc", "demo", "touched=1")
        wait_for(lambda: self.metrics(self.operator)["controller_runtime_reconcile_time_seconds_count"] > passes, "a pass")
        self.assertEqual(self.writes(), before)
        self.await_scaled(1, 3)

    # Autoscalers.

    def test_autoscalers_move_each_role_for_itself(self):
        adapter = MetricsAdapter(self, self.folder)

        def measure(waiting, tokens):
            adapter.measure(janus_requests_waiting=waiting, janus_tokens_per_second=tokens)

        measure(4, 4000)
        self.kubectl("apply", "-f", EXAMPLES / "hpa.yaml")
        for role in ("attention", "experts"):
            self.await_condition(f"hpa/demo-{role}", "ScalingActive", "True", "ValidMetricFound")
        self.await_scaled(1, 2)
        measure(11, 4000)  # 4 for each
        self.await_scaled(3, 2)
        measure(11, 9500)  # 2000 for each
        self.await_scaled(3, 5)
        self.assertEqual(self.condition("moesvc/demo", "ScalingReady")[:2], ("True", "External"))
        wait_for(lambda: self.get("hpa/demo-experts")["status"].get("currentReplicas") == 5, "the HPA's own count")
        self.assertEqual(self.get("hpa/demo-experts")["status"]["desiredReplicas"], 5)
        measure(3, 9500)
        self.await_scaled(1, 5)
        measure(3, 100000)
        self.await_scaled(1, 8)
        self.await_condition("hpa/demo-experts", "ScalingLimited", "True", "TooManyReplicas")
        measure(3, 100)
        self.await_scaled(1, 2)
        self.assertEqual(self.writes_of_scalers(), {("create", ""), ("update", "status")})
        self.assertEqual(self.told("ScaledUp")[0], "attention: from 1 to 3 instances")


if __name__ == "__main__":
    unittest.main(verbosity=2)
