"""Under which rights janus-operator runs on a test cluster, and whether they were enough."""

import base64
import json
import pathlib
import subprocess

from certificates import CONTROL_PLANE

CHART = pathlib.Path(__file__).resolve().parents[2] / "charts" / "janus-operator"


def rights_of_the_chart(programs, namespace, environment):
    """Its account and roles, as the chart gives them to an operator of that namespace alone (YAML)."""
    done = subprocess.run(
        [programs / "helm", "template", "janus-operator", CHART, "-n", namespace, "--set",
         "namespaced=true,image.pullPolicy=Never", "--show-only", "templates/rbac.yaml", "--show-only",
         "templates/serviceaccount.yaml"],
        capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def write_kubeconfig(path, token, pki):
    """Of who has the token, for programs in the cluster's network."""
    authority = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": f"https://{CONTROL_PLANE}:6443",
                                                "certificate-authority-data": authority}}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}))


def refusals(audit_log):
    """What operators asked for without a right to it: (verb, URI). Other refusals, as of a quota, have none of this."""
    found = []
    with open(audit_log, encoding="utf-8") as log:
        for line in log:
            if ':janus-operator"' not in line or '"authorization.k8s.io/decision":"forbid"' not in line:
                continue
            entry = json.loads(line)
            found.append((entry["verb"], entry["requestURI"]))
    return found
