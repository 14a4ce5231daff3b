"""The chart's alerts and dashboards, compared with the exported metrics: python3 e2e/chart/monitoring_test.py

It needs no cluster. promtool runs alerts.yaml. Prometheus' own parser lists the metrics of each query, which must be in
docs/metrics.md (printed from the declarations).
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import unittest

for _room in ("support", "cluster"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / _room))

from needs import missing  # noqa: E402
from tiers import cannot_run  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "charts" / "janus-operator" / "monitoring"
ALERTS, CASES = MONITORING / "alerts.yaml", pathlib.Path(__file__).with_name("alerts.yaml")
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
# Labels that a scrape by the chart's monitors adds to every series.
TARGET = {"namespace", "service", "pod", "container", "job", "instance", "endpoint"}
# Values for Grafana's variables.
VARIABLES = {"$__rate_interval": "5m", "$namespace": "a", "$service": "b", "$job": "c"}


def declared():
    """Labels by the names of series: {"janus_step_seconds_bucket": {"role", "rank", "le"}}."""
    found, heading = collections.defaultdict(set), ""
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        if line.startswith("## "):
            heading = line
        match = re.match(r"\| `([a-z0-9_:]+)(?:\{([a-z_,]*)\})?` \| (counter|gauge|histogram) \|", line)
        if not match:
            continue
        name, labels, kind = match[1], set(filter(None, (match[2] or "").split(","))), match[3]
        if heading == "## Of the workers":
            labels |= {"role", "rank"}
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + suffix] |= labels | ({"le"} if suffix == "_bucket" else set())
    return found


def reasons():
    """Reasons by condition, from docs/conditions.md."""
    found = collections.defaultdict(set)
    for reason, conditions in re.findall(r"(?m)^\| `(\w+)` \| ([\w, ]+) \| [\w, ]+ \|",
                                         (ROOT / "docs" / "conditions.md").read_text()):
        for condition in conditions.split(", "):
            found[condition].add(reason)
    return found


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"(?m)^#+ (.+)$", page.read_text())}


class MonitoringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = missing("build")
        if reason:
            cannot_run("build", f"it needs Prometheus' parser: {reason}")
        done = subprocess.run([ROOT / "e2e" / "build" / "build", "api"], stdout=subprocess.PIPE, text=True, check=True)
        cls.programs = pathlib.Path(done.stdout.strip())
        cls.rules = [rule for group in cls.yaml(ALERTS)["groups"] for rule in group["rules"]]
        cls.alerts = {rule["alert"]: rule for rule in cls.rules if "alert" in rule}
        cls.cases = cls.yaml(CASES)["tests"]

    @classmethod
    def yaml(cls, path):
        return json.loads(subprocess.run([cls.programs / "queries", path], stdout=subprocess.PIPE, check=True).stdout)

    def promtool(self, *words):
        if not (self.programs / "promtool").exists():
            cannot_run("build", "there is no promtool, nor Debian's package of it (prometheus)")
        done = subprocess.run([self.programs / "promtool", *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_takes_the_rules_and_their_cases(self):
        self.promtool("check", "rules", "--lint-fatal", ALERTS)
        self.promtool("test", "rules", CASES)

    def fired(self):
        """Expected sets of labels by alert, from the cases."""
        found = collections.defaultdict(list)
        for case in self.cases:
            for check in case.get("promql_expr_test", []):
                for sample in check.get("exp_samples", []):
                    labels = dict(re.findall(r'(\w+)="([^"]*)"', sample["labels"]))
                    found[labels.pop("alertname")].append(labels)
            for check in case.get("alert_rule_test", []):
                for one in check.get("exp_alerts", []):
                    found[check["alertname"]].append(one["exp_labels"])
        return found

    def test_every_alert_has_a_case_and_one_case_has_none(self):
        self.assertEqual(sorted(self.fired()), sorted(self.alerts))
        self.assertEqual(self.cases[0]["name"], "nothing is wrong")
        checks = self.cases[0]["promql_expr_test"]
        self.assertTrue(checks and all(check["expr"] == 'ALERTS{alertstate="firing"}' and "exp_samples" not in check
                                       for check in checks))
        # The first case has series for everything that any alert uses.
        there = {re.match("[a-z0-9_:]+", one["series"])[0] for one in self.cases[0]["input_series"]}
        there |= {rule["record"] for rule in self.rules if "record" in rule}
        asked = {one["metric"] for answer in self.judged([rule["expr"] for rule in self.alerts.values()])
                 for one in answer["selections"]}
        self.assertEqual(asked - there, set())

    def test_every_alert_says_what_to_do(self):
        fired = self.fired()
        for name, rule in self.alerts.items():
            with self.subTest(name):
                self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                annotations = rule["annotations"]
                # The chart makes a URL of it (prometheusRule.docs).
                self.assertEqual(set(annotations), {"summary", "description", "runbook"})
                self.assertGreater(len(annotations["description"].split()), 10)
                page, _, anchor = annotations["runbook"].partition("#")
                self.assertTrue((ROOT / page).is_file(), page)
                if anchor:
                    self.assertIn(anchor, anchors(ROOT / page))
                # A label that the alert does not have would be empty in the text.
                told = set(re.findall(r"\$labels\.(\w+)", " ".join(annotations.values())))
                for labels in fired[name]:
                    self.assertEqual(told - set(labels), set())

    def judged(self, queries):
        done = subprocess.run([self.programs / "queries"], input=json.dumps(queries), stdout=subprocess.PIPE, text=True,
                              check=True)
        answers = json.loads(done.stdout)
        self.assertEqual(len(answers), len(queries))
        for query, answer in zip(queries, answers):
            self.assertNotIn("error", answer, query)
        return answers

    def check(self, queries, known):
        """`queries`: (place, text)."""
        for (where, query), answer in zip(queries, self.judged([query for _, query in queries])):
            with self.subTest(where, query=query):
                self.assertTrue(answer["selections"], "it asks for nothing")
                for one in answer["selections"]:
                    self.assertTrue(one["metric"] in known, f"nobody exports {one['metric']}")
                    self.assertEqual(set(one["labels"]) - known[one["metric"]] - TARGET, set())
                for one in answer["groupings"]:
                    there = TARGET.union(*(known[metric] for metric in one["metrics"]))
                    self.assertEqual(set(one["labels"] or []) - there, set())

    def test_every_alert_asks_for_what_is_exported(self):
        known = declared()
        self.assertGreater(len(known), 100)
        for rule in self.rules:
            if "record" in rule:
                known[rule["record"]] |= set(rule.get("labels", {}))
        self.check([(rule.get("alert") or rule["record"], rule["expr"]) for rule in self.rules], known)

    def test_every_condition_that_an_alert_asks_for_has_its_reason(self):
        there, asked = reasons(), 0
        self.assertIn("AsWanted", there["Ready"])
        for answer in self.judged([rule["expr"] for rule in self.rules]):
            for one in answer["selections"]:
                if one["metric"] != "janus_service_condition":
                    continue
                for condition in one["values"]["condition"].split("|"):
                    self.assertIn(condition, there)
                    for reason in filter(None, one["values"].get("reason", "").split("|")):
                        asked += 1
                        self.assertIn(reason, there[condition])
        self.assertGreater(asked, 5)

    def test_every_dashboard_asks_for_what_is_exported(self):
        self.assertEqual([path.stem for path in DASHBOARDS], ["operator", "slo", "topology"])
        queries = []
        for path in DASHBOARDS:
            dashboard = json.loads(path.read_text())
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
                    # In this form the parser reports the label, too.
                    queries.append((f"{path.name}: {variable['name']}", f"sum by ({label}) ({series})"))
            for one in dashboard["annotations"]["list"]:
                queries.append((f"{path.name}: {one['name']}", one["expr"]))
                self.assertIn("janus_topology_epoch", one["expr"])
            for panel in dashboard["panels"]:
                if panel["type"] == "row":
                    continue
                self.assertTrue(panel["targets"], panel["title"])
                for target in panel["targets"]:
                    queries.append((f"{path.name}: {panel['title']}", target["expr"]))
                    told = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                    by = set(re.findall(r"\w+", " ".join(re.findall(r" by \(([^)]*)\)", target["expr"]))))
                    self.assertEqual(told - by, set(), f"{panel['title']}: labels of a legend that are summed away")
        # A variable may hold several values.
        for where, query in queries:
            self.assertEqual(re.findall(r'\w+(?:=|!=|!~)"\$\w+"', query), [], where)
        for name, value in VARIABLES.items():
            queries = [(where, query.replace(name, value)) for where, query in queries]
        self.assertNotIn("$", " ".join(query for _, query in queries))
        self.check(queries, declared())

    def test_dashboards_are_whole(self):
        for path in DASHBOARDS:
            with self.subTest(path.name):
                dashboard = json.loads(path.read_text())
                self.assertEqual(dashboard["uid"], f"janus-{path.stem}")
                panels = dashboard["panels"]
                for values in ([one["id"] for one in panels], [one["title"] for one in panels]):
                    self.assertEqual(len(set(values)), len(values))
                places = [one["gridPos"] for one in panels]
                for i, one in enumerate(places):
                    self.assertLessEqual(one["x"] + one["w"], 24)
                    for other in places[:i]:
                        self.assertTrue(one["x"] >= other["x"] + other["w"] or other["x"] >= one["x"] + one["w"] or
                                        one["y"] >= other["y"] + other["h"] or other["y"] >= one["y"] + one["h"],
                                        "two panels at one place")
                # With one query or setting per line, a diff shows what changed.
                self.assertLess(max(map(len, path.read_text().splitlines())), 700)

    def test_dashboards_begin_with_what_matters_and_explain_each_panel(self):
        for path in DASHBOARDS:
            with self.subTest(path.name):
                dashboard = json.loads(path.read_text())
                rows = []
                for panel in dashboard["panels"]:
                    if panel["type"] == "row":
                        rows.append([])
                    else:
                        rows[-1].append(panel)  # the first panel is a row
                        self.assertGreater(len(panel["description"].split()), 2, panel["title"])
                self.assertGreater(len(rows), 2)
                self.assertEqual({len(row) == 0 for row in rows}, {False})
                self.assertEqual({panel["type"] for panel in rows[0]}, {"stat"})
                for panel in rows[0]:
                    self.assertTrue(panel["fieldConfig"]["defaults"]["thresholds"]["steps"])
                variables = [one for one in dashboard["templating"]["list"] if one["type"] == "query"]
                self.assertEqual([one["name"] for one in variables],
                                 ["job"] if path.stem == "operator" else ["namespace", "service"])
                for one in variables:
                    self.assertTrue(one["multi"] and one["includeAll"], one["name"])
                    self.assertEqual(one["current"]["value"], ["$__all"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
