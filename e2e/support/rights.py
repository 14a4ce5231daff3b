"""The rights of janus-operator on a test cluster, whether they were sufficient, and what it wrote with them."""

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


def requests_of_operators(audit_log, part):
    """Entries of the server's audit log that have this text, of all operators."""
    with open(audit_log, encoding="utf-8") as log:
        for line in log:
            # The last line may not be complete yet.
            if line.endswith("\n") and part in line and ':janus-operator"' in line:
                entry = json.loads(line)
                if entry["user"]["username"].endswith(":janus-operator"):
                    yield entry


def refusals(audit_log):
    """Requests of operators that were refused for a missing right: (verb, URI). Refusals for a quota and the like are left out."""
    return [(entry["verb"], entry["requestURI"])
            for entry in requests_of_operators(audit_log, '"authorization.k8s.io/decision":"forbid"')]


def writes_to_services(audit_log, namespace=""):
    """What operators wrote to MoEServices, also without success: how often to the status, and (verb, URI) of each other write.
    A spec, labels and finalizers are the user's. Without a namespace: in all."""
    to_status, others = 0, []
    for entry in requests_of_operators(audit_log, '"resource":"moeservices"'):
        if entry["verb"] in ("get", "list", "watch") or namespace not in ("", entry["objectRef"].get("namespace")):
            continue
        if entry["objectRef"].get("subresource") == "status":
            to_status += 1
        else:
            others.append((entry["verb"], entry["requestURI"]))
    return to_status, others
