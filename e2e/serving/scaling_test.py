"""A service on two real nodes that is scaled while it is asked: python3 e2e/serving/scaling_test.py

It is scaled by its spec, by `kubectl scale` and by a HorizontalPodAutoscaler on an external metric. Each role moves
separately: instances that are still wanted stay and do not restart. Clients ask without a pause. No request may fail, and
every answer to a prompt must be the same.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import ROOT, wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from metrics_adapter import MetricsAdapter  # noqa: E402
from served_case import OF_WORKERS, ServedCase  # noqa: E402


class ScalingTest(ServedCase):
    def serve(self, attention, experts):
        self.apply("demo", "demo", gateway={"replicas": 2},
                   roles={"attention": {"maxBatchSize": 16, **attention}, "experts": experts})
        self.await_served("demo")
        self.size = (1, 2)
        return self.ask_demo()

    def serve_external(self):
        return self.serve(*({"scaling": {"mode": "External", "minReplicas": least, "maxReplicas": 3}}
                            for least in (1, 2)))

    def status_of_roles(self):
        """Committed and wanted instances of the roles, as users see them."""
        return tuple(role["ready"] for role in sorted(self.get("moesvc/demo")["status"]["roles"],
                                                      key=lambda role: role["name"]))

    def identities(self):
        return {name: (uid, starts) for name, (uid, starts, _) in self.states(OF_WORKERS).items()}

    def scaled(self, attention, experts, scale):
        """`scale` brings the service to these counts, in a later epoch. A role that grows or stays keeps all its instances;
        one that shrinks gets no new ones."""
        before, epoch = self.identities(), self.epoch()
        scale()
        wait_for(lambda: self.status_of_roles() == (f"{attention}/{attention}", f"{experts}/{experts}")
                 and self.is_ready() and self.condition("Progressing") == ("True", "Complete")
                 and len(self.states(OF_WORKERS)) == attention + experts, f"{attention}A{experts}E")
        self.assertGreater(self.epoch(), epoch)
        after = self.identities()
        for role, was, now in (("attention", self.size[0], attention), ("experts", self.size[1], experts)):
            ours, theirs = ({name: one for name, one in pods.items() if f"-{role}-" in name}
                            for pods in (before, after))
            less, more = (ours, theirs) if now >= was else (theirs, ours)
            self.assertEqual({**more, **less}, more, f"{role}: somebody was replaced or started again")
        self.size = (attention, experts)

    def told(self, reason):
        return sorted(one["note"] for one in self.get("events.events.k8s.io")["items"] if one["reason"] == reason)

    def edit(self, role, replicas):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     json.dumps({"spec": {"roles": {role: {"replicas": replicas}}}}))

    def test_the_spec_scales_each_role_for_itself(self):
        askers = self.serve({"replicas": 1}, {"replicas": 2})
        for attention, experts, role, replicas in ((1, 3, "experts", 3), (2, 3, "attention", 2), (2, 2, "experts", 2),
                                                   (1, 2, "attention", 1)):
            self.scaled(attention, experts, lambda role=role, replicas=replicas: self.edit(role, replicas))
            askers.await_more(6)
        wait_for(lambda: (len(self.told("ScaledUp")), len(self.told("ScaledDown"))) == (2, 2), "Events of all four")
        self.check_answers(askers)

    def test_kubectl_scales_each_role_for_itself(self):
        askers = self.serve_external()

        def kubectl_scale(role, replicas):
            self.kubectl("scale", "moerolescaler", f"demo-{role}", f"--replicas={replicas}")
            self.kubectl("wait", f"--for=jsonpath={{.status.replicas}}={replicas}", f"mrs/demo-{role}",
                         TIMEOUT)
            self.kubectl("wait", "--for=condition=Ready", f"mrs/demo-{role}", TIMEOUT)

        for attention, experts, role, replicas in ((1, 3, "experts", 3), (3, 3, "attention", 3), (3, 2, "experts", 2),
                                                   (1, 2, "attention", 1)):
            self.scaled(attention, experts, lambda role=role, replicas=replicas: kubectl_scale(role, replicas))
            askers.await_more(6)
        self.assertEqual(self.condition("ScalingReady"), ("True", "External"))
        self.check_answers(askers)

    def test_autoscalers_on_an_external_metric_move_each_role_for_itself(self):
        adapter = MetricsAdapter(self, ROOT / "build" / "e2e" / self.namespace)
        adapter.measure(janus_requests_waiting=4, janus_tokens_per_second=4000)  # 4 and 2000 for each
        askers = self.serve_external()
        self.kubectl("apply", "-f", ROOT / "examples" / "autoscaling" / "hpa.yaml")
        self.kubectl("wait", "--for=condition=ScalingActive", "hpa/demo-attention", "hpa/demo-experts",
                     TIMEOUT)
        for attention, experts, waiting, tokens in ((2, 2, 8, 4000), (2, 3, 8, 6000), (1, 3, 4, 6000), (1, 2, 4, 4000)):
            self.scaled(attention, experts, lambda waiting=waiting, tokens=tokens: adapter.measure(
                janus_requests_waiting=waiting, janus_tokens_per_second=tokens))
            askers.await_more(6)
        self.check_answers(askers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
