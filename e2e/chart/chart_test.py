"""The chart on a real API server, with fake pods: python3 e2e/chart/chart_test.py

The test runs janus-operator itself beside the cluster, with the flags of the chart's Deployment and the token of its
service account, to check that it has exactly the rights that it needs. Its workers are those of
operator/operator_test.py. The rights that it used are in the API server's audit log.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, CRDS, ROOT, ClusterCase, wait_for  # noqa: E402
from limits import TIMEOUT  # noqa: E402

from control_plane import ControlPlane  # noqa: E402
from rights import write_kubeconfig  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
CHART = ROOT / "charts" / "janus-operator"
VALUE_SETS = sorted((CHART / "ci").glob("*-values.yaml"))
KINDS = [f"{path.stem}.serving.janus.dev" for path in CRDS]
NO_REGISTRY = ("No registry is set, and there is no default: set global.imageRegistry to where you pushed the "
               "images, or image.pullPolicy to Never where every node has them.")
SERVICE = {
    "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "demo"},
    "spec": {"model": {"source": {"type": "HostPath", "hostPath": {"path": f"{ROOT}/examples/demo-model"}}},
             "roles": {"attention": {"replicas": 1}, "experts": {"replicas": 2}}}}


def setting(**values):
    return [word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]


class ChartTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.is_given:
            raise unittest.SkipTest("it takes the kinds of the API away, and reads the audit log")
        cls.state = cls.state_folder()
        cls.programs = (cls.state / "programs").resolve()
        cls.plane = ControlPlane(cls.state, cls.programs)
        for name in ("fake-a", "fake-b"):
            cls.add_fake_node(name)

    def setUp(self):
        super().setUp()
        self.folder = ROOT / "build" / "e2e" / self.namespace
        self.folder.mkdir(parents=True, exist_ok=True)
        # Pods that the restricted standard refuses would then be missing after the install.
        self.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=restricted",
                     namespaced=False)

    # Helm.

    def try_helm(self, *words):
        return subprocess.run([*self.in_network, self.programs / "helm", *(str(word) for word in words)],
                              capture_output=True, text=True, check=False,
                              env={**self.environment, "HELM_CACHE_HOME": f"{self.state}/helm"})

    def helm(self, *words):
        done = self.try_helm("-n", self.namespace, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def helm_and_wait(self, verb, chart, *words):
        return self.helm(verb, "janus-operator", *([chart] if chart else []), "--wait", TIMEOUT,
                         *words)

    def uninstall(self):
        # Without --wait: it would also wait for the kinds, which stay.
        self.try_helm("-n", self.namespace, "uninstall", "janus-operator", "--ignore-not-found")
        self.try_kubectl("delete", "crd", "--ignore-not-found", "--wait=false", *KINDS)
        wait_for(self.kinds_are_gone, "the end of the kinds")

    def kinds_are_gone(self):
        """If the objects of a kind could not be listed because the storage of another was being set up, the server tries
        again after a change of the kind, or after five minutes. An annotation is such a change."""
        left = self.try_kubectl("get", "crd", "-o", "name").stdout.split()
        for one in left:
            self.try_kubectl("annotate", "--overwrite", one, f"looked-at={time.monotonic()}")
        return not left

    def install(self, **values):
        """Installs the chart as on nodes that have the images."""
        self.addCleanup(self.uninstall)
        return self.helm_and_wait("install", CHART, *setting(image__pullPolicy="Never", **values))

    # The chart without a cluster.

    def test_lint_has_nothing_to_say(self):
        self.assertEqual(len(VALUE_SETS), 8)
        for values in VALUE_SETS:
            # Neither a warning nor a recommendation, such as the one for an icon.
            self.assertNotRegex(self.helm("lint", "--strict", CHART, "-f", values), r"\[(INFO|WARNING|ERROR)\]")

    def test_every_program_is_of_the_charts_version(self):
        version = re.search(r"^appVersion: (\S+)$", (CHART / "Chart.yaml").read_text(), re.M)[1]
        for name in ("janus-operator", "janus-gateway", "janus-worker", "janusctl"):
            said = subprocess.run([BIN / name, "--version"], capture_output=True, text=True, check=True).stdout
            self.assertEqual(said.strip(), f"{name} {version}")
        # The tag of images.
        self.assertIn(f"project(janus VERSION {version} ", (ROOT / "CMakeLists.txt").read_text())

    def test_what_cannot_be_is_refused_with_its_reason(self):
        registry = {"global__imageRegistry": "registry.example.com"}
        for values, words in (
                ({}, NO_REGISTRY),
                ({**registry, "image__pullPolicy": "Sometimes"}, "at '/image/pullPolicy'"),
                ({**registry, "imag__tag": "1"}, "additional properties 'imag' not allowed"),
                ({**registry, "watchNamespaces": "{a,a}"}, "at '/watchNamespaces': items at 0 and 1 are equal"),
                ({**registry, "namespaced": "true", "watchNamespaces": "{a}"}, "set one of the two"),
                ({**registry, "leaderElection__enabled": "false"}, "set replicas to 1"),
                ({"global__imageRegistry": "https://registry.example.com"}, "at '/global/imageRegistry'"),
                ({**registry, "metrics__port": "8081"}, "metrics.port and health.port are both 8081"),
                ({**registry, "metrics__authentication__enabled": "true", "namespaced": "true"},
                 "needs rights of the whole cluster (TokenReview, SubjectAccessReview), which namespaced=true does without"),
                ({**registry, "metrics__authentication__token": "x"}, "additional properties 'token' not allowed"),
                ({**registry, "certificates__leafSeconds": "99999999"}, "leafSeconds of at most authoritySeconds"),
                ({**registry, "certificates__spreadSeconds": "9999999"}, "spreadSeconds of at most a sixth of authoritySeconds"),
                ({**registry, "defaults__nodeCores": "2"}, "additional properties 'nodeCores' not allowed"),
                ({**registry, "timedDevices__enabled": "maybe"}, "at '/timedDevices/enabled'"),
                ({**registry, "hub__endpoint": "hub.example"}, "at '/hub/endpoint'"),
                ({**registry, "hostPaths": "{models}"}, "at '/hostPaths/0'"),
                ({**registry, "commonLabels__team": "no label"}, "at '/commonLabels/team'"),
                ({**registry, "extraArgs": "{debug}"}, "at '/extraArgs/0'"),
                ({**registry, "extraEnv[0].value": "x"}, "at '/extraEnv/0': missing property 'name'"),
                ({**registry, "dnsPolicy": "Sometimes"}, "at '/dnsPolicy'"),
                ({**registry, "global__imagePullSecrets[0].secret": "x"}, "at '/global/imagePullSecrets/0'"),
                ({**registry, "podDisruptionBudget__maxUnavailable": "many"}, "at '/podDisruptionBudget/maxUnavailable'"),
                ({**registry, "networkPolicy__apiServerPorts": "{70000}"}, "at '/networkPolicy/apiServerPorts/0'"),
                ({**registry, "networkPolicy__allow": "all"}, "additional properties 'allow' not allowed"),
                ({**registry, "test__service": "Demo"}, "at '/test/service'"),
                ({**registry, "prometheusRule__docs": "docs"}, "at '/prometheusRule/docs'")):
            done = self.try_helm("template", "janus-operator", CHART, *setting(**values))
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn(words, done.stderr)

    def rendered(self, *words):
        """The objects of the chart, by (kind, name)."""
        text = self.helm("template", "janus-operator", CHART, *words)
        objects = self.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-",
                               text=text, namespaced=False)
        # kubectl prints the objects one after the other.
        found, decoder = {}, json.JSONDecoder()
        while objects.strip():
            one, end = decoder.raw_decode(objects.lstrip())
            objects = objects.lstrip()[end:]
            found[one["kind"], one["metadata"]["name"]] = one
        return text, found

    def test_extra_values_reach_the_objects_that_they_name(self):
        self.install_monitoring_kinds()
        _, objects = self.rendered("-f", CHART / "ci" / "extras-values.yaml")
        for (kind, name), one in objects.items():
            labels = one["metadata"].get("labels", {})
            self.assertEqual(labels.get("team"), "serving", (kind, name))
            if kind != "CustomResourceDefinition":  # it has no labels of the chart
                self.assertTrue(labels["app.kubernetes.io/name"].startswith("janus-operator"), (kind, name))
        deployment = objects["Deployment", "janus-operator"]["spec"]
        pod = deployment["template"]["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        self.assertEqual((labels["team"], labels["app.kubernetes.io/name"]), ("serving", "janus-operator"))
        # An upgrade cannot change a selector.
        self.assertEqual(deployment["selector"]["matchLabels"], {
            "app.kubernetes.io/name": "janus-operator", "app.kubernetes.io/instance": "janus-operator"})
        container, = pod["containers"]
        self.assertEqual(container["args"][-1], "--lease-namespace=leases")
        self.assertEqual(container["image"], "operators.example.com/janus/operator:0.1.0")
        for flag in ("--worker-image=workers.example.com/janus/worker-cpu:0.1.0",
                     "--worker-cuda-image=registry.example.com/janus/worker-cuda:0.1.0",
                     "--gateway-image=gateways.example.com/team/janus/gateway:0.1.0"):
            self.assertIn(flag, container["args"])
        self.assertEqual([one["name"] for one in container["env"]], ["POD_NAME", "POD_NAMESPACE", "GRPC_VERBOSITY", "NODE"])
        self.assertEqual(container["volumeMounts"], [{"name": "trust", "mountPath": "/etc/trust", "readOnly": True}])
        self.assertEqual(pod["volumes"], [{"name": "trust", "configMap": {"name": "trust"}}])
        self.assertEqual((pod["dnsPolicy"], pod["dnsConfig"]["nameservers"]), ("None", ["10.96.0.10"]))
        for one in (pod, objects["Pod", "janus-operator-test"]["spec"],
                    objects["Job", "janus-operator-no-services-left"]["spec"]["template"]["spec"]):
            self.assertEqual(one["imagePullSecrets"], [{"name": "plain"}, {"name": "object"}])
        self.assertEqual(objects["PodDisruptionBudget", "janus-operator"]["spec"]["maxUnavailable"], "50%")
        _, objects = self.rendered("-f", CHART / "ci" / "bare-values.yaml")
        self.assertFalse({"PodDisruptionBudget", "NetworkPolicy", "Pod"} & {kind for kind, _ in objects}, "not asked for")
        pod = objects["Deployment", "janus-operator"]["spec"]["template"]["spec"]
        self.assertEqual(pod["imagePullSecrets"], [{"name": "registry"}])
        self.assertFalse({"volumes", "dnsPolicy", "dnsConfig"} & set(pod))

    def test_the_network_policy_opens_what_the_operator_needs(self):
        self.install_monitoring_kinds()
        _, objects = self.rendered("-f", CHART / "ci" / "extras-values.yaml")
        policy = objects["NetworkPolicy", "janus-operator"]["spec"]
        deployment = objects["Deployment", "janus-operator"]["spec"]
        self.assertEqual(policy["podSelector"], deployment["selector"])
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
        ports = {port["name"]: port["containerPort"] for port in deployment["template"]["spec"]["containers"][0]["ports"]}
        monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
        tcp = lambda *numbers: [{"port": number, "protocol": "TCP"} for number in numbers]  # noqa: E731
        self.assertEqual(policy["ingress"], [{"ports": tcp(ports["metrics"]), "from": monitoring},
                                             {"ports": tcp(ports["health"])}, {"ports": tcp(9999)}])
        workers = {"namespaceSelector": {}, "podSelector": {"matchExpressions": [
            {"key": "serving.janus.dev/service", "operator": "Exists"}]}}
        self.assertEqual(policy["egress"], [{"ports": tcp(6443), "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
                                            {"ports": tcp(9000), "to": [workers]},
                                            {"ports": [{"port": 53, "protocol": "UDP"}]}])
        _, objects = self.rendered(*setting(image__pullPolicy="Never", networkPolicy__enabled="true"))
        policy = objects["NetworkPolicy", "janus-operator"]["spec"]
        self.assertEqual(policy["ingress"][0], {"ports": tcp(8080)})
        self.assertEqual(policy["egress"][0], {"ports": tcp(443, 6443)})

    def test_helm_test_asks_the_operator_or_a_service(self):
        for values, call in (
                ({}, f"--operator=http://janus-operator-metrics.{self.namespace}.svc:8081"),
                ({"test__service": "demo"}, f"--gateway=http://demo.{self.namespace}.svc"),
                ({"test__service": "demo", "test__namespace": "models"}, "--gateway=http://demo.models.svc")):
            _, objects = self.rendered(*setting(image__pullPolicy="Never", **values))
            pod = objects["Pod", "janus-operator-test"]
            self.assertEqual(pod["metadata"]["annotations"]["helm.sh/hook"], "test")
            self.assertEqual(pod["spec"]["containers"][0]["args"], ["check", call])
            self.assertFalse(pod["spec"]["automountServiceAccountToken"])
        service = objects["Service", "janus-operator-metrics"]["spec"]
        self.assertEqual({port["name"]: port["port"] for port in service["ports"]}, {"metrics": 8080, "health": 8081})
        # The Service and the operator's selectors find no pod of a hook.
        self.assertNotEqual(pod["metadata"]["labels"]["app.kubernetes.io/name"], service["selector"]["app.kubernetes.io/name"])

    def test_the_object_of_the_notes_is_the_example(self):
        for values, place in (({}, "default"), ({"watchNamespaces": "{models,more}"}, "models"),
                              ({"namespaced": "true"}, self.namespace)):
            notes = self.helm("install", "janus-operator", CHART, "--dry-run=client",
                              *setting(image__pullPolicy="Never", **values)).split("\nNOTES:\n")[1]
            where, written = re.search(r"(?ms)^  kubectl -n (\S+) apply -f - <<'END'\n(.*?)^  END$", notes).groups()
            self.assertEqual(where, place)
            example = (ROOT / "examples" / "moeservice.yaml").read_text()
            self.assertEqual(textwrap.dedent(written), re.sub(r"(?m)^#.*\n", "", example))

    def install_monitoring_kinds(self):
        self.kubectl("apply", "--server-side", "-f", self.programs / "monitoring-crds.yaml", namespaced=False)
        self.addCleanup(self.try_kubectl, "delete", "-f", self.programs / "monitoring-crds.yaml")
        self.await_kind("crd", "--all")

    def test_every_object_of_every_value_set_fits_its_schema(self):
        self.install_monitoring_kinds()
        for name in ("models", "more"):
            self.kubectl("create", "namespace", name, namespaced=False)
            self.addCleanup(self.try_kubectl, "delete", "namespace", name, "--wait=false")
        kinds = set()
        for values in VALUE_SETS:
            with self.subTest(values.name):
                text, objects = self.rendered("-f", values)
                kinds |= {kind for kind, _ in objects}
                said = self.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f",
                                    "-", text=text, namespaced=False)
                self.assertEqual(len(said.splitlines()), text.count("\nkind: "), said)
        self.assertEqual(kinds, {
            "ClusterRole", "ClusterRoleBinding", "ConfigMap", "CustomResourceDefinition", "Deployment", "Job",
            "Lease", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "Role", "RoleBinding", "Service", "ServiceAccount",
            "ServiceMonitor"})

    def test_dashboards_and_alerts_are_those_of_its_folder(self):
        self.install_monitoring_kinds()
        folder = CHART / "monitoring"
        # A runbook_url is always a URL.
        for values, runbook, docs, namespace, label in (
                ("every-knob", "runbook_url", "https://example.com/janus/docs/", "models", "dashboards"),
                ("extras", "runbook_url", "https://example.com/janus/docs/", self.namespace, "grafana_dashboard"),
                ("one-namespace", "runbook", "docs/", self.namespace, "grafana_dashboard")):
            _, objects = self.rendered("-f", CHART / "ci" / f"{values}-values.yaml")
            rules = [one for (kind, _), one in objects.items() if kind == "PrometheusRule"]
            self.assertEqual(len(rules), 1)
            alerts = [rule for group in rules[0]["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
            self.assertEqual([one["alert"] for one in alerts],
                             re.findall("(?m)^ +- alert: (.+)$", (folder / "alerts.yaml").read_text()))
            for one in alerts:
                self.assertEqual(set(one["annotations"]), {"summary", "description", runbook})
                self.assertEqual(one["annotations"][runbook][:len(docs)], docs)
            maps = [one for (kind, _), one in objects.items() if kind == "ConfigMap"]
            found = {}
            for one in maps:
                self.assertEqual(one["metadata"]["namespace"], namespace)
                self.assertIn(label, one["metadata"]["labels"])
                found.update(one["data"])
            self.assertEqual({name: json.loads(text) for name, text in found.items()},
                             {f"janus-{path.name}": json.loads(path.read_text())
                              for path in (folder / "dashboards").glob("*.json")})
        # All their queries use the namespace and service of a MoEService.
        _, objects = self.rendered("-f", CHART / "ci" / "every-knob-values.yaml")
        endpoint, = objects["ServiceMonitor", "moe"]["spec"]["endpoints"]
        self.assertTrue(endpoint["honorLabels"])
        for endpoint in objects["PodMonitor", "moe-services"]["spec"]["podMetricsEndpoints"]:
            self.assertIn({"sourceLabels": ["__meta_kubernetes_pod_label_serving_janus_dev_service"],
                           "targetLabel": "service"}, endpoint["relabelings"])
        _, objects = self.rendered("-f", CHART / "ci" / "registry-values.yaml")
        self.assertFalse({"PrometheusRule", "ConfigMap"} & {kind for kind, _ in objects}, "not asked for")

    def test_the_kinds_are_those_of_crds(self):
        _, objects = self.rendered(*setting(image__pullPolicy="Never"))
        for path in CRDS:
            there = objects["CustomResourceDefinition", f"{path.stem}.serving.janus.dev"]
            self.assertEqual(there["metadata"].pop("annotations"), {"helm.sh/resource-policy": "keep"})
            source = json.loads(self.kubectl("create", "--dry-run=client", "-o", "json", "-f", path,
                                             namespaced=False))
            self.assertEqual(there["spec"], source["spec"])

    # From install to uninstall.

    def everything(self):
        """Names of all objects in the cluster, except those that the cluster makes itself, and events."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name", namespaced=False).split()
        kinds = ",".join(sorted({kind for kind in kinds if not kind.startswith(("events", "componentstatuses"))}))
        names = self.kubectl("get", kinds, "-A", "--ignore-not-found", "--no-headers", "-o", "custom-columns="
                             "KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name", namespaced=False)
        return {tuple(line.split()) for line in names.splitlines() if " kube-system " not in line}

    def await_nothing_but(self, before):
        left = set()

        def holds():
            left.clear()
            left.update(self.everything() - before)
            return not left

        try:
            wait_for(holds, "the end of pods")
        finally:
            self.assertEqual(left, set())

    def older_chart(self):
        """The chart of an older version, in which the kind had another short name."""
        older = self.folder / "older"
        shutil.copytree(CHART, older)
        path = older / "definitions" / "moeservices.yaml"
        text = path.read_text()
        older_text = text.replace("shortNames: [moesvc]", "shortNames: [olderservice]")
        self.assertNotEqual(older_text, text)
        path.write_text(older_text)
        return older

    def short_names(self):
        return self.kubectl("get", "crd", "moeservices.serving.janus.dev", "-o",
                            "jsonpath={.spec.names.shortNames[*]}", namespaced=False)

    def deployment(self):
        return json.loads(self.kubectl("get", "deployment", "janus-operator", "-o", "json"))

    def test_install_upgrade_rollback_uninstall_leave_nothing(self):
        before = self.everything()
        self.addCleanup(self.uninstall)
        values = setting(image__pullPolicy="Never", crds__keep="false")
        self.helm_and_wait("install", self.older_chart(), *values)
        self.assertEqual(self.deployment()["status"]["readyReplicas"], 2)
        self.assertEqual(self.short_names(), "olderservice")
        # A leader's Lease, as janus-operator writes it, and a service: a release must change neither.
        self.kubectl("patch", "lease", "janus-operator", "--type=merge", "-p",
                     json.dumps({"spec": {"holderIdentity": "me", "leaseTransitions": 7}}))
        self.kubectl("apply", "-f", "-", text=json.dumps(SERVICE))

        def holds(replicas, short_name):
            self.assertEqual(self.deployment()["status"]["readyReplicas"], replicas)
            self.assertEqual(self.short_names(), short_name)
            self.assertEqual(self.kubectl("get", "lease", "janus-operator", "-o", "jsonpath={.spec}"),
                             '{"holderIdentity":"me","leaseTransitions":7}')
            self.kubectl("get", "moeservices.serving.janus.dev", "demo")

        self.helm_and_wait("upgrade", CHART, *values, *setting(replicas=3, debug="true"))
        holds(3, "moesvc")
        self.assertIn("--debug", self.deployment()["spec"]["template"]["spec"]["containers"][0]["args"])
        self.helm_and_wait("rollback", None, "1")
        holds(2, "olderservice")
        self.assertNotIn("--debug", self.deployment()["spec"]["template"]["spec"]["containers"][0]["args"])

        self.helm("uninstall", "janus-operator", "--wait", TIMEOUT)
        self.await_nothing_but(before)

    def test_kinds_and_services_outlive_a_release_that_keeps_them(self):
        before = self.everything()
        self.install()
        self.kubectl("apply", "-f", "-", text=json.dumps(SERVICE))
        uid = self.kubectl("get", "moesvc", "demo", "-o", "jsonpath={.metadata.uid}")
        self.helm("uninstall", "janus-operator", "--wait", TIMEOUT)
        kept = {("MoEService", "demo"), ("APIService", "v1alpha1.serving.janus.dev")} | {
            ("CustomResourceDefinition", name) for name in KINDS}
        wait_for(lambda: {(kind, name) for kind, _, name in self.everything() - before} == kept, f"only {kept}")
        self.install()
        self.assertEqual(self.kubectl("get", "moesvc", "demo", "-o", "jsonpath={.metadata.uid}"), uid)

    # Rights.

    def start(self, is_ready=True):
        """Starts janus-operator with what the chart gives it in a pod."""
        program = BIN / "operator-with-prompt-members"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev {program.name}")
        pod = self.deployment()["spec"]["template"]["spec"]
        flags = {flag.split("=")[0]: flag for flag in pod["containers"][0]["args"]}
        for page in ("--metrics-address", "--health-address", "--records-address"):  # ports of the network that it shares with the cluster
            self.assertIn(page, flags)
            flags[page] = f"{page}=127.0.0.1:0"
        token = self.kubectl("create", "token", pod["serviceAccountName"], "--duration=1h").strip()
        self.kubeconfig = self.folder / "operator.kubeconfig"
        write_kubeconfig(self.kubeconfig, token, self.state / "pki")
        environment = {variable["name"]: {"metadata.name": "operator-0", "metadata.namespace": self.namespace}[
            variable["valueFrom"]["fieldRef"]["fieldPath"]] for variable in pod["containers"][0]["env"]}
        with open(self.folder / "operator.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [CLUSTER, "run", program, f"--kubeconfig={self.kubeconfig}", *flags.values()],
                env={**self.environment, **environment, "JANUS_FENCE_BOOK": str(self.folder / "fences")},
                stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        ready = process.stdout.readline()
        self.assertRegex(ready, "^janus-operator ready ", (self.folder / "operator.log").read_text())
        process.health = health = "http://" + re.search(r"health=(\S+)", ready)[1]
        process.metrics = re.search(r"metrics=(\S+)", ready)[1]
        if not is_ready:
            return process
        wait_for(lambda: subprocess.run([*self.in_network, "curl", "-sf", "-o", "/dev/null",
                                         f"{health}/readyz"], check=False).returncode == 0, "the operator's /readyz")
        # The command of helm test.
        self.assertEqual(subprocess.run([CLUSTER, "run", BIN / "janus-operator", "check", f"--operator={health}"],
                                        env=self.environment, capture_output=True, text=True, check=False).stdout,
                         f"{health} is ready: ok\n")
        return process

    def audited(self):
        """The requests of janus-operator to the API."""
        user = f'"username":"system:serviceaccount:{self.namespace}:janus-operator"'
        with open(self.state / "log" / "audit.log", encoding="utf-8") as log:
            for line in log:
                if not line.endswith("\n"):
                    break  # the last line is not complete yet
                if user in line:
                    yield json.loads(line)

    def refused(self):
        return [(one["verb"], one["requestURI"]) for one in self.audited()
                if one.get("responseStatus", {}).get("code") == 403]

    def used(self):
        """(group, resource, verb). An apply of a missing object creates it; for this the server also checks the right to
        create."""
        found = set()
        for one in self.audited():
            on = one["objectRef"]
            if on.get("resource") == "selfsubjectaccessreviews":  # every account may ask for its rights
                continue
            what = (on.get("apiGroup", ""), "/".join(filter(None, (on["resource"], on.get("subresource")))))
            found.add((*what, one["verb"]))
            if one["verb"] == "patch" and one.get("responseStatus", {}).get("code") == 201:
                found.add((*what, "create"))
        return found

    def granted(self):
        """(group, resource, verb) of all roles that the service account has."""
        found = set()
        for binding in json.loads(self.kubectl("get", "clusterrolebindings,rolebindings", "-A", "-o", "json",
                                               namespaced=False))["items"]:
            if not any(one["kind"] == "ServiceAccount" and one["name"] == "janus-operator"
                       and one["namespace"] == self.namespace for one in binding.get("subjects", [])):
                continue
            place = ("-n", binding["metadata"]["namespace"]) if "namespace" in binding["metadata"] else ()
            role = json.loads(self.kubectl(*place, "get", binding["roleRef"]["kind"], binding["roleRef"]["name"],
                                           "-o", "json", namespaced=False))
            for rule in role["rules"]:
                found |= {(group, resource, verb) for group in rule["apiGroups"]
                          for resource in rule["resources"] for verb in rule["verbs"]}
        return found

    def services_left(self, **values):
        """Exit code and output of the uninstall hook's command, with the hook's rights."""
        _, objects = self.rendered(*setting(image__pullPolicy="Never", **values))
        job = objects["Job", "janus-operator-no-services-left"]
        self.assertEqual(job["metadata"]["annotations"]["helm.sh/hook"], "pre-delete")
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(pod["serviceAccountName"], "janus-operator")
        done = subprocess.run([CLUSTER, "run", BIN / "janus-operator", *pod["containers"][0]["args"],
                               f"--kubeconfig={self.kubeconfig}"], env=self.environment, capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout

    def workers(self):
        return json.loads(self.kubectl("get", "pods", "-l", "app.kubernetes.io/name=janus-worker", "-o",
                                       "json"))["items"]

    def apply(self, attention, experts):
        service = json.loads(json.dumps(SERVICE))
        service["spec"]["roles"] = {"attention": {"replicas": attention}, "experts": {"replicas": experts}}
        self.kubectl("apply", "-f", "-", text=json.dumps(service))

    def patch_experts(self, **experts):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     json.dumps({"spec": {"roles": {"experts": experts}}}))

    def ask_for_policies(self, asked):
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     json.dumps({"spec": {"security": {"networkPolicy": asked}}}))

    def await_whole(self, count):
        def holds():
            service = json.loads(self.kubectl("get", "moesvc", "demo", "-o", "json"))
            return len(self.workers()) == count and any(
                one["type"] == "Ready" and one["status"] == "True"
                and one["observedGeneration"] == service["metadata"]["generation"]
                for one in service.get("status", {}).get("conditions", []))
        wait_for(holds, f"a whole service of {count} workers")

    def await_use(self, *what):
        wait_for(lambda: what in self.used(), f"{what} in the audit log")

    def allow_host_paths(self):
        self.kubectl("label", "--overwrite", "namespace", self.namespace,
                     "pod-security.kubernetes.io/enforce=privileged", namespaced=False)

    def start_plain_api_server(self):
        """An API server that does not stream lists, like older ones: `list` is then needed beside `watch`."""
        self.plane.box.stop("kube-apiserver", signal.SIGKILL)  # otherwise it waits a minute for watches
        self.plane.start_api_server("--feature-gates=WatchList=false")
        self.plane.await_ready()

    def fail_creates(self, group, resource):
        """A webhook that does not answer: the server does not know whether the create happened."""
        name = f"{resource}-{self.namespace}"
        self.kubectl("apply", "-f", "-", namespaced=False, text=json.dumps({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{"name": "nobody.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"},
                          "failurePolicy": "Fail", "timeoutSeconds": 1, "sideEffects": "None",
                          "admissionReviewVersions": ["v1"],
                          "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                          "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
                                     "operations": ["CREATE"]}]}]}))
        self.addCleanup(self.try_kubectl, "delete", "validatingwebhookconfiguration", name, "--ignore-not-found")
        return lambda: self.kubectl("delete", "validatingwebhookconfiguration", name, namespaced=False)

    def test_its_rights_are_what_it_uses_and_no_more(self):
        self.start_plain_api_server()
        self.allow_host_paths()
        self.install(hostPaths="{%s/examples}" % ROOT, certificates__leafSeconds=60)
        process = self.start()
        # If the result of a create is unknown, the operator reads the object.
        doubts = [("", "pods"), ("serving.janus.dev", "moetopologies")]
        mend = [self.fail_creates(*what) for what in doubts]
        self.apply(1, 2)
        for what, end in zip(doubts, mend):
            self.await_use(*what, "get")
            end()
        self.await_whole(3)
        # Objects made by POST and changed by others are read before they are repaired.
        for group, resource, name in (("", "serviceaccounts", "demo-worker"), ("", "services", "demo"),
                                      ("apps", "deployments", "demo-gateway")):
            self.kubectl("label", "--overwrite", resource, name, "app.kubernetes.io/name=other")
            self.await_use(group, resource, "get")
            self.await_use(group, resource, "patch")
        self.apply(1, 1)
        self.await_whole(2)
        self.await_use("serving.janus.dev", "moetopologies/status", "update")
        # A pool that goes takes its headless Service with it.
        for pools, workers in ((2, 4), (1, 2), (None, 2)):
            self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", json.dumps({"spec": {"pools": pools}}))
            self.await_whole(workers)
        self.await_use("", "services", "delete")
        # A role that is scaled from outside, then no longer.
        end = self.fail_creates("serving.janus.dev", "moerolescalers")
        self.patch_experts(replicas=None, scaling={"mode": "External"})
        self.await_use("serving.janus.dev", "moerolescalers", "get")
        end()
        self.await_use("serving.janus.dev", "moerolescalers/status", "update")
        self.kubectl("label", "--overwrite", "mrs", "demo-experts", "app.kubernetes.io/name=other")
        self.await_use("serving.janus.dev", "moerolescalers", "patch")
        self.patch_experts(replicas=1, scaling=None)
        self.await_use("serving.janus.dev", "moerolescalers", "delete")
        # Another model beside the one that serves. When it is removed, its topology is removed, too.
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p", json.dumps(
            {"spec": {"model": {"dtype": "Float16"}, "rollout": {"type": "SideBySide", "drainSeconds": 1}}}))
        self.await_use("serving.janus.dev", "moetopologies", "delete")
        # NetworkPolicies, as long as the service asks for them.
        self.ask_for_policies(True)
        self.await_use("networking.k8s.io", "networkpolicies", "create")
        self.kubectl("label", "--overwrite", "networkpolicy", "demo-workers", "app.kubernetes.io/name=other")
        self.await_use("networking.k8s.io", "networkpolicies", "patch")
        self.ask_for_policies(False)
        self.await_use("networking.k8s.io", "networkpolicies", "delete")
        # A model from a hub: a Job for each revision that is wanted.
        end = self.fail_creates("batch", "jobs")
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "hub"},
            "spec": {"model": {"source": {"type": "HuggingFace", "huggingFace": {"repo": "org/moe"}}},
                     "roles": {"attention": {"replicas": 1}, "experts": {"replicas": 1}}}}))
        self.await_use("batch", "jobs", "get")
        end()
        self.await_use("batch", "jobs", "create")
        self.kubectl("patch", "moesvc", "hub", "--type=merge", "-p", json.dumps(
            {"spec": {"model": {"source": {"huggingFace": {"revision": "v2"}}}}}))
        self.await_use("batch", "jobs", "delete")
        self.kubectl("delete", "moesvc", "hub")
        # A repeated event updates the existing Event.
        for _ in range(2):
            uid = self.kubectl("get", "deployment", "demo-gateway", "-o", "jsonpath={.metadata.uid}")
            self.kubectl("delete", "deployment", "demo-gateway")
            wait_for(lambda uid=uid: self.try_kubectl(
                "-n", self.namespace, "get", "deployment", "demo-gateway", "-o",
                "jsonpath={.metadata.uid}").stdout not in ("", uid), "another Deployment")
        # A node that has disappeared, with a worker on it.
        node = self.workers()[0]["spec"]["nodeName"]
        self.kubectl("delete", "node", node, "--wait=false", namespaced=False)
        self.await_use("", "nodes", "get")
        self.add_fake_node(node)
        self.kubectl("delete", "lease", "janus-operator")
        self.await_use("coordination.k8s.io", "leases", "create")
        self.apply(0, 0)
        self.await_use("policy", "poddisruptionbudgets", "delete")
        self.await_use("", "secrets", "update")
        self.kubectl("delete", "moesvc", "demo")
        self.await_use("", "secrets", "delete")
        self.assertEqual(self.refused(), [])
        self.check_namespace_ends_with_its_last_pod()
        process.terminate()
        self.assertEqual(process.wait(), 0)
        self.assertEqual(self.used(), self.granted())

    def check_namespace_ends_with_its_last_pod(self):
        """Kubernetes would look at the namespace again only after half of the pods' grace, 165 s."""
        ending = f"{self.namespace}-ending"
        self.kubectl("create", "namespace", ending, namespaced=False)
        self.addCleanup(self.try_kubectl, "delete", "namespace", ending, "--wait=false")
        self.kubectl("-n", ending, "apply", "-f", "-", text=json.dumps(SERVICE), namespaced=False)
        wait_for(lambda: len(self.kubectl("-n", ending, "get", "pods", "-l", "app.kubernetes.io/name=janus-worker", "-o", "name",
                                          namespaced=False).split()) == 3, "its workers")
        self.kubectl("delete", "namespace", ending, "--wait=false", namespaced=False)
        self.await_use("", "namespaces/status", "patch")
        wait_for(lambda: not self.try_kubectl("get", "namespace", ending, "--ignore-not-found", "-o", "name").stdout,
                 "the end of the namespace")

    def check_missing_right(self):
        """An operator that starts without one of its rights names it."""
        path = "/rules/7/verbs"
        rules = json.loads(self.kubectl("get", "role", "janus-operator", "-o", "json"))["rules"]
        self.assertEqual((rules[7]["resources"], rules[7]["verbs"]), (["pods/status"], ["patch"]))
        self.kubectl("patch", "role", "janus-operator", "--type=json", "-p",
                     json.dumps([{"op": "replace", "path": path, "value": ["get"]}]))
        second = self.start(is_ready=False)
        words = f"no right to: patch pods/status in namespace {self.namespace}\n"
        wait_for(lambda: self.readiness(second).endswith(words), "the missing right at /readyz")
        log = (self.folder / "operator.log").read_text()
        self.assertRegex(log, rf"a right is missing.* verb=patch resource=pods/status namespace={self.namespace}\b")
        self.kubectl("patch", "role", "janus-operator", "--type=json", "-p",
                     json.dumps([{"op": "replace", "path": path, "value": ["patch"]}]))
        wait_for(lambda: self.readiness(second) == "ok\n", "the right")
        second.terminate()
        self.assertEqual(second.wait(), 0)

    def readiness(self, process):
        return subprocess.run([*self.in_network, "curl", "-s", f"{process.health}/readyz"], capture_output=True, text=True,
                              check=False).stdout

    def check_rivals(self):
        """The namespaced release stands: others over its namespace are refused."""
        for namespace, values, words in (
                (self.namespace, {"namespaced": "true"}, f"serves {self.namespace} already"),
                ("default", {}, f"serves {self.namespace} already"),
                ("default", {"watchNamespaces": f"{{default,{self.namespace}}}"}, f"serves {self.namespace} already"),
                ("default", {"watchNamespaces": "{default}"}, "")):
            done = self.try_helm("-n", namespace, "install", "second", CHART, "--dry-run=server",
                                 *setting(image__pullPolicy="Never", crds__install="false", **values))
            if words:
                self.assertIn(f"the release janus-operator in namespace {self.namespace} {words}", done.stderr, values)
            else:
                self.assertEqual(done.returncode, 0, done.stderr)

    def install_as_admin_of_the_namespace(self, **values):
        """Installs with the role `admin` in this namespace and no other rights, after an administrator has applied
        what docs/kubernetes.md names."""
        self.addCleanup(self.uninstall)
        administrator = ROOT / "examples" / "namespaced" / "administrator.yaml"
        self.addCleanup(self.try_kubectl, "delete", "-f", administrator, "--ignore-not-found")
        for path in (*CRDS, administrator):
            self.kubectl("apply", "--server-side", "-f", path, namespaced=False)
        self.kubectl("wait", "--for=condition=Established", TIMEOUT, *(f"crd/{kind}" for kind in KINDS),
                     namespaced=False)
        self.kubectl("create", "serviceaccount", "installer")
        self.kubectl("create", "rolebinding", "installer", "--clusterrole=admin",
                     f"--serviceaccount={self.namespace}:installer")
        wait_for(lambda: "moetopologies" in self.kubectl("get", "clusterrole", "admin", "-o", "yaml", namespaced=False),
                 "the aggregated rights of admin")
        kubeconfig = self.folder / "installer.kubeconfig"
        write_kubeconfig(kubeconfig, self.kubectl("create", "token", "installer").strip(), self.state / "pki")
        done = subprocess.run(
            [*self.in_network, self.programs / "helm", "-n", self.namespace, "install", "janus-operator", CHART, "--wait",
             TIMEOUT, *setting(image__pullPolicy="Never", namespaced="true", crds__install="false", **values)],
            capture_output=True, text=True, check=False,
            env={**self.environment, "HELM_CACHE_HOME": f"{self.state}/helm", "KUBECONFIG": str(kubeconfig)})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_rights_in_one_namespace_are_enough_there(self):
        self.allow_host_paths()
        self.install_as_admin_of_the_namespace(hostPaths="{%s/examples}" % ROOT)
        self.check_rivals()
        self.check_missing_right()
        self.start()
        self.assertEqual(self.services_left(namespaced="true"), (0, ""))
        self.apply(1, 2)
        self.await_whole(3)
        self.assertEqual(self.services_left(namespaced="true"), (1, f"{self.namespace}/demo\n"))
        self.assertEqual(self.refused(), [])
        for what, allowed in (("list nodes", "no"), ("create pods -n default", "no"), ("get secrets -n default", "no"),
                              (f"create pods -n {self.namespace}", "yes"),
                              ("list moeservices.serving.janus.dev -n default", "no")):
            done = self.try_kubectl("auth", "can-i", *what.split(), "--as",
                                    f"system:serviceaccount:{self.namespace}:janus-operator")
            self.assertEqual(done.stdout.strip(), allowed, what)

    def metrics(self, process, account=None):
        """HTTP status and body of /metrics, for the token of a service account."""
        header = ("-H", f"Authorization: Bearer {self.kubectl('create', 'token', account).strip()}") if account else ()
        done = subprocess.run([*self.in_network, "curl", "-sk", "-w", "\n%{http_code}", *header,
                               f"https://{process.metrics}/metrics"], capture_output=True, text=True, check=True)
        body, status = done.stdout.rsplit("\n", 1)
        return int(status), body

    def test_metrics_behind_authentication_are_for_users_with_the_right(self):
        self.install(metrics__authentication__enabled="true")
        process = self.start()
        for account in ("stranger", "prometheus"):
            self.kubectl("create", "serviceaccount", account)
        binding = f"{self.namespace}-metrics"
        self.addCleanup(self.try_kubectl, "delete", "clusterrolebinding", binding, "--ignore-not-found")
        self.kubectl("create", "clusterrolebinding", binding, f"--clusterrole={self.namespace}:janus-operator:metrics",
                     f"--serviceaccount={self.namespace}:prometheus", namespaced=False)
        self.assertEqual(self.metrics(process)[0], 401)
        status, words = self.metrics(process, "stranger")
        self.assertEqual(status, 403, words)
        self.assertIn(f"user 'system:serviceaccount:{self.namespace}:stranger' may not get /metrics", words)
        wait_for(lambda: self.kubectl("auth", "can-i", "get", "/metrics", "--as",
                                      f"system:serviceaccount:{self.namespace}:prometheus").strip() == "yes", "the right")
        status, words = self.metrics(process, "prometheus")
        self.assertEqual(status, 200, words)
        self.assertIn("leader_election_master_status", words)
        plain = subprocess.run([*self.in_network, "curl", "-s", f"http://{process.metrics}/metrics"], capture_output=True,
                               text=True, check=False)
        self.assertNotEqual(plain.returncode, 0, "plain HTTP is not served")
        self.assertEqual(self.refused(), [])
        reviews = {("authentication.k8s.io", "tokenreviews", "create"),
                   ("authorization.k8s.io", "subjectaccessreviews", "create")}
        wait_for(lambda: reviews <= self.used(), "the reviews in the audit log")
        self.assertLessEqual(reviews, self.granted())

    def test_several_namespaces_are_kept_each_with_rights_of_its_own(self):
        self.allow_host_paths()
        own, other = self.namespace, f"{self.namespace}-too"
        self.kubectl("create", "namespace", other, namespaced=False)
        self.addCleanup(self.try_kubectl, "delete", "namespace", other, "--wait=false")
        watched = f"{{{own},{other}}}"
        self.install(watchNamespaces=watched, hostPaths="{%s/examples}" % ROOT)
        self.start()
        self.apply(1, 2)
        self.await_whole(3)
        with self.in_namespace(other):
            self.allow_host_paths()
            self.apply(1, 1)
            self.await_whole(2)
        self.assertEqual(self.services_left(watchNamespaces=watched), (1, f"{own}/demo\n{other}/demo\n"))
        self.assertEqual(self.refused(), [])
        for what, allowed in ((f"create pods -n {other}", "yes"), ("create pods -n default", "no"),
                              (f"get secrets -n {other}", "no"),
                              ("list moeservices.serving.janus.dev -n default", "no")):
            done = self.try_kubectl("auth", "can-i", *what.split(), "--as",
                                    f"system:serviceaccount:{own}:janus-operator")
            self.assertEqual(done.stdout.strip(), allowed, what)

    @contextlib.contextmanager
    def in_namespace(self, name):
        before, self.namespace = self.namespace, name
        try:
            yield
        finally:
            self.namespace = before


if __name__ == "__main__":
    unittest.main(verbosity=2)
