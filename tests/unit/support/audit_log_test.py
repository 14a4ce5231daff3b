"""What e2e/support/rights.py finds in the audit log of an API server."""

import json
import pathlib
import sys
import tempfile
import unittest

E2E = pathlib.Path(__file__).resolve().parents[3] / "e2e"
sys.path[:0] = [str(E2E / "support"), str(E2E / "cluster")]

from rights import refusals, writes_to_services  # noqa: E402

OPERATOR = "system:serviceaccount:janus-system:janus-operator"


def line(verb, subresource=None, namespace="a", user=OPERATOR, resource="moeservices", decision="allow"):
    """As kube-apiserver writes it."""
    of = {"resource": resource, "namespace": namespace, "name": "demo"}
    if subresource:
        of["subresource"] = subresource
    return json.dumps({"requestURI": f"/{namespace}/demo/{subresource or ''}", "verb": verb, "user": {"username": user},
                       "objectRef": of, "annotations": {"authorization.k8s.io/decision": decision}},
                      separators=(",", ":")) + "\n"


class AuditLogTest(unittest.TestCase):
    def log(self, *lines):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "audit.log").write_text("".join(lines))
        return folder / "audit.log"

    def test_writes_to_the_status_are_counted_and_all_others_named(self):
        log = self.log(line("update", "status"), line("patch", "status"), line("patch"), line("update", "scale", "b"))
        self.assertEqual(writes_to_services(log), (2, [("patch", "/a/demo/"), ("update", "/b/demo/scale")]))
        self.assertEqual(writes_to_services(log, "a"), (2, [("patch", "/a/demo/")]))

    def test_what_users_write_and_operators_read_is_no_write_of_an_operator(self):
        log = self.log(line("patch", user="admin"), line("get"), line("watch"), line("list"), line("update", resource="pods"))
        self.assertEqual(writes_to_services(log), (0, []))

    def test_a_line_that_is_not_complete_yet_is_left_out(self):
        self.assertEqual(writes_to_services(self.log(line("update", "status"), line("patch")[:-9])), (1, []))

    def test_refusals_are_those_of_operators(self):
        log = self.log(line("create", decision="forbid"), line("create", user="admin", decision="forbid"), line("create"))
        self.assertEqual(refusals(log), [("create", "/a/demo/")])


if __name__ == "__main__":
    unittest.main()
