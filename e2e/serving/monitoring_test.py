"""A Prometheus that scrapes services under load: python3 e2e/serving/monitoring_test.py

It has the example's configuration. Every query of every dashboard that can have data has some. Autoscalers of the examples
scale a service by it, through prometheus-adapter; without Prometheus they keep the counts.
"""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from askers import Askers  # noqa: E402
from cluster_case import ROOT, wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from prometheus import Prometheus, start_adapter  # noqa: E402
from served_case import ServedCase  # noqa: E402

EXAMPLES = ROOT / "examples" / "autoscaling"
DASHBOARDS = sorted((ROOT / "charts" / "janus-operator" / "monitoring" / "dashboards").glob("*.json"))
TARGETS = {"tpot": {"targetMilliseconds": 200}, "ttft": {"targetMilliseconds": 2000}}
# Parts of queries that have no data here, and why.
NOTHING = {"< 1)": "every condition is True", "rest_client_request_retries_total": "no call is tried again",
           "janus_connections_refused_total": "no client is refused",
           "janus_exchange_device_bytes_per_second": "there is no RDMA device",
           "janus_model_error_ratio": "it takes minutes of changing load",
           "janus_placement_busiest_experts": "the first search is after an hour"}


class MonitoringTest(ServedCase):
    values = {"timedDevices__enabled": "true"}

    def wanted(self, queries):
        """Of (title, query), those without data. On a machine that is too busy for timed devices, decisions are held, and so
        predict nothing."""
        is_held = any(one["reason"] == "EmulationLate" for one in self.get("moesvc/auto")["status"]["conditions"])
        return [(title, query) for title, query in queries
                if not (is_held and "janus_tpot_predicted_seconds" in query) and not any(
                    self.prometheus.query(query.replace("$service", service)) for service in ("demo", "auto"))]

    def queries(self):
        for path in DASHBOARDS:
            for panel in json.loads(path.read_text())["panels"]:
                for target in panel["targets"]:
                    query = target["expr"]
                    for variable, value in {"$__rate_interval": "1m", "$__range": "5m", "$namespace": self.namespace,
                                            "$job": "janus-operator"}.items():
                        query = query.replace(variable, value)
                    yield panel["title"], query

    def ask(self, service, count=3):
        askers = Askers(self.nodes[0], self.url(service), count)
        self.addCleanup(askers.close)
        askers.await_more(6)
        return askers

    def test_every_query_of_the_dashboards_has_data(self):
        self.apply("demo", "demo", slo=TARGETS, roles={"attention": {"replicas": 1}, "experts": {"replicas": 2}})
        # A service that decides by itself: on timed devices. Clients ask both for the model "demo".
        self.apply("auto", "demo", "demo", slo=TARGETS, device="Timed",
                   # Slow enough for two cores: late results would hold every decision.
                   timed={"hardware": "A100", "model": "mixtral-8x22b", "scale": 16}, scaling={"intervalSeconds": 5})
        self.prometheus = Prometheus(self)
        for service in ("demo", "auto"):
            self.await_served(service)
        askers = [self.ask(service) for service in ("demo", "auto")]
        queries = [one for one in self.queries() if not any(part in one[1] for part in NOTHING)]
        self.assertGreater(len(queries), 100)
        try:
            wait_for(lambda: not self.wanted(queries), "data of every query")
        except Exception:
            print("without data:", *self.wanted(queries), sep="\n  ", file=sys.stderr)
            raise
        targets = self.prometheus.get("targets", state="active")["data"]["activeTargets"]
        self.assertEqual({one["scrapeUrl"]: one["lastError"] for one in targets if one["health"] != "up"}, {})
        self.assertEqual({one["labels"]["job"] for one in targets}, {"janus-operator", "janus-services"})
        rules = [rule for group in self.prometheus.get("rules")["data"]["groups"] for rule in group["rules"]]
        self.assertGreater(len(rules), 20)
        self.assertEqual([rule["name"] for rule in rules if rule["health"] != "ok"], [])
        for one in askers:
            self.assertEqual(one.end()["failures"], [])

    def counts(self):
        roles = {role["name"]: role["instances"] for role in self.get("moesvc/demo")["status"]["roles"]}
        return roles["attention"], roles["experts"]

    def await_counts(self, attention, experts):
        wait_for(lambda: self.counts() == (attention, experts) and self.is_ready(), f"{attention}A{experts}E")

    def test_autoscalers_scale_by_prometheus_and_hold_without_it(self):
        self.apply("demo", "demo", roles={
            "attention": {"maxBatchSize": 1, "scaling": {"mode": "External", "minReplicas": 1, "maxReplicas": 2}},
            "experts": {"scaling": {"mode": "External", "minReplicas": 2, "maxReplicas": 3}}})
        self.prometheus = Prometheus(self)
        self.await_served("demo")
        askers = self.ask("demo", 12)  # one runs, eleven wait
        wait_for(lambda: self.prometheus.query(f'vllm:num_requests_waiting{{namespace="{self.namespace}"}}'), "a scrape")
        self.check_keda()
        start_adapter(self, self.prometheus)
        # No machine of the tests generates 2000 tokens a second.
        text = (EXAMPLES / "hpa.yaml").read_text()
        self.assertIn('averageValue: "2000"', text)
        self.kubectl("apply", "-f", "-", text=text.replace('averageValue: "2000"', 'averageValue: "1"'))
        self.kubectl("wait", "--for=condition=ScalingActive", "hpa/demo-attention", "hpa/demo-experts", TIMEOUT)
        self.await_counts(2, 3)
        # Without Prometheus there is no metric: the counts stay.
        self.prometheus.stop()
        self.kubectl("wait", "--for=condition=ScalingActive=false", "hpa/demo-attention", "hpa/demo-experts", TIMEOUT)
        askers.await_more(6)
        self.assertEqual(self.counts(), (2, 3))
        self.prometheus.start()
        self.kubectl("wait", "--for=condition=ScalingActive", "hpa/demo-attention", "hpa/demo-experts", TIMEOUT)
        # Without load there is a metric, and it is zero.
        self.check_answers(askers)
        self.await_counts(1, 2)

    def check_keda(self):
        """KEDA's kinds take the example, and its queries have data."""
        self.kubectl("apply", "--server-side", "-f", self.prometheus.folder / "keda-crds.yaml", namespaced=False)
        self.addCleanup(self.try_kubectl, "delete", "crd", "scaledobjects.keda.sh")
        self.kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", TIMEOUT, namespaced=False)
        text = (EXAMPLES / "keda.yaml").read_text().replace('namespace="default"', f'namespace="{self.namespace}"')
        self.kubectl("apply", "--dry-run=server", "-f", "-", text=text)
        queries = re.findall(r"query: (.+)", text)
        self.assertEqual(len(queries), 2)
        for query in queries:
            wait_for(lambda query=query: self.prometheus.query(query), query)


if __name__ == "__main__":
    unittest.main(verbosity=2)
