"""The rights of janus-operator on a test cluster, and whether they were sufficient."""

import base64
import json
import pathlib
import subprocess

from certificates import CONTROL_PLANE

CHART = pathlib.Path(__file__).resolve().parents[2] / "charts" / "janus-operator"


def rights_of_the_chart(programs, namespace, environment):
    """The account and roles that the chart gives to an operator of a single namespace (YAML)."""
    done = subprocess.run(
        [programs / "helm", "template", "janus-operator", CHART, "-n", namespace, "--set",
         f"watchNamespaces={{{namespace}}},image.pullPolicy=Never", "--show-only", "templates/rbac.yaml", "--show-only",
         "templates/serviceaccount.yaml"],
        capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def write_kubeconfig(path, token, pki):
    """A kubeconfig with this token, for programs in the cluster's network."""
    authority = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": f"https://{CONTROL_PLANE}:6443",
                                                "certificate-authority-data": authority}}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}))


def refusals(audit_log):
    """Requests of operators that were refused for a missing right: (verb, URI). Refusals for a quota and the like are left out."""
    found = []
    with open(audit_log, encoding="utf-8") as log:
        for line in log:
            if ':janus-operator"' not in line or '"authorization.k8s.io/decision":"forbid"' not in line:
                continue
            entry = json.loads(line)
            found.append((entry["verb"], entry["requestURI"]))
    return found
