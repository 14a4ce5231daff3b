"""The kinds of crds/ on a real API server: python3 e2e/api/crds_test.py"""

import base64
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CRDS, MODULES, ROOT, ClusterCase, need_modules, wait_for  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
GROUP = "/apis/serving.janus.dev/v1alpha1"
MINIMAL = {
    "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "chat"},
    "spec": {"model": {"source": {"type": "HuggingFace",
                                  "huggingFace": {"repo": "deepseek-ai/DeepSeek-V2-Lite"}}},
             "slo": {"tpot": {"targetMilliseconds": 60}}}}

MOST_BYTES = 3 << 19  # of a request, by default
SEQUENCES = {"maxBatchSize": 65535, "maxModelLen": 1 << 24, "kvBytes": 1 << 40, "swapBytes": 1 << 37,
             "prefixHostBytes": 1 << 41}


def pod_name(i):
    """The longest names: of a service with 40 characters, and an instance after many others."""
    return f"{'s' * 40}-{'attention' if i < 256 else 'experts'}-{'r' * 10}-{10_000 + i}"


def topology(epoch, instances=1280, placement=""):
    return {"epoch": epoch, "configHash": "c" * 64, "mode": "Direct", "gate": "Experts",
            "sum": "Contributions", "microBatches": 2, "maxRowsPerRound": 512,
            "instances": [{"role": "attention" if i < 256 else "experts", "podUID": f"{i:036d}", "index": 0,
                           "incarnation": 1, "node": pod_name(i), "address": f"240.100.{200 + i // 250}.{i % 250}:9000",
                           **({} if i < 256 else {"slots": 3})}
                          for i in range(instances)],
            "sequences": SEQUENCES, "placement": placement, "sha256": "a" * 64, "model": "m" * 10}


class CrdsTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.install_crds()

    def setUp(self):
        super().setUp()
        self.server = self.api_server()
        wait_for(lambda: self.server.request("GET", GROUP)[0] == 200, "discovery of the group")

    def create(self, plural, body, **changes):
        path = f"{GROUP}/namespaces/{self.namespace}/{plural}?fieldValidation=Strict"
        return self.server.request("POST", path, {**body, **changes})

    def assert_refused(self, answer, field, words=""):
        status, body = answer
        self.assertEqual(status, 422, body)
        causes = [(cause["field"], cause["message"]) for cause in body["details"]["causes"]]
        self.assertTrue(any(f == field and words in m for f, m in causes), causes)

    def test_all_are_small_enough_and_installed_by_a_client_side_apply(self):
        self.assertEqual(len(CRDS), 4)
        self.assertLess(sum(path.stat().st_size for path in CRDS), 200_000)
        for path in CRDS:  # setUpClass has applied them; doing it again changes nothing
            self.assertIn("unchanged", self.kubectl("apply", "-f", path, namespaced=False))
        self.assertIn("Latency targets", self.kubectl("explain", "moesvc.spec.slo"))

    def test_the_minimal_object_is_taken_and_read_back(self):
        self.kubectl("apply", "-f", "-", text=json.dumps(MINIMAL))
        read = json.loads(self.kubectl("get", "moesvc", "chat", "-o", "json"))
        # Scalars get defaults if their object is present; no object is added.
        expected = json.loads(json.dumps(MINIMAL["spec"]))
        expected.update(device="Auto", paused=False, suspend=False)
        expected["model"]["dtype"] = "Auto"
        expected["slo"]["tpot"]["percentile"] = "P95"
        self.assertEqual(read["spec"], expected)
        self.assertEqual(self.try_kubectl("-n", self.namespace, "diff", "-f", "-",
                                          text=json.dumps(MINIMAL)).stdout, "")

    def test_status_is_written_by_its_subresource_alone(self):
        _, made = self.create("moeservices", MINIMAL)
        made["status"] = {"observedGeneration": 1, "gpus": 7}
        path = f"{GROUP}/namespaces/{self.namespace}/moeservices/chat"
        _, through_object = self.server.request("PUT", path, made)
        self.assertNotIn("status", through_object)
        made["metadata"] = through_object["metadata"]
        made["spec"]["paused"] = True
        status, through_status = self.server.request("PUT", path + "/status", made)
        self.assertEqual(status, 200, through_status)
        self.assertEqual(through_status["status"]["gpus"], 7)
        self.assertFalse(through_status["spec"]["paused"])
        self.assertEqual(through_status["metadata"]["generation"], 1)

    def test_type_and_repository_stay_for_life(self):
        self.create("moeservices", MINIMAL)
        path = f"{GROUP}/namespaces/{self.namespace}/moeservices/chat"

        def patch(source):
            return self.server.request("PATCH", path, {"spec": {"model": {"source": source}}},
                                       "application/merge-patch+json")
        self.assertEqual(patch({"huggingFace": {"revision": "v2"}})[0], 200)
        self.assert_refused(patch({"huggingFace": {"repo": "a/b"}}), "spec.model.source.huggingFace.repo",
                            "may not change")
        self.assert_refused(patch({"type": "Image", "huggingFace": None, "image": {"path": "/m"}}),
                            "spec.model.source.type", "may not change")

    def test_objects_survive_the_upgrade_from_an_older_text(self):
        # The kind in a separate API group, first in a version that lacks two of its fields.
        path = next(path for path in CRDS if path.stem == "moeservices")
        text = self.kubectl("create", "--dry-run=client", "-o", "json", "-f", path, namespaced=False)
        new = json.loads(text.replace("serving.janus.dev", f"{self.namespace}.test"))
        new.pop("status", None)  # kubectl adds an empty one
        old = json.loads(json.dumps(new))
        fields = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        del fields["spec"]["properties"]["suspend"]
        del fields["status"]["properties"]["gpus"]
        fields["spec"]["properties"]["paused"]["description"] = "As it was told before."
        name = new["metadata"]["name"]
        self.addCleanup(self.try_kubectl, "delete", "crd", name, "--ignore-not-found")

        def install(crd):
            said = self.kubectl("apply", "-f", "-", text=json.dumps(crd), namespaced=False)
            self.await_kind(f"crd/{name}")
            return said

        self.assertIn("created", install(old))
        group = f"/apis/{self.namespace}.test/v1alpha1"
        wait_for(lambda: self.server.request("GET", group)[0] == 200, "discovery of the group")
        objects = f"{group}/namespaces/{self.namespace}/moeservices"
        template = {"spec": {"hostname": "a", "anything": [1, {"b": None}]}}
        body = {**MINIMAL, "apiVersion": f"{self.namespace}.test/v1alpha1",
                "spec": {**MINIMAL["spec"], "roles": {"experts": {"replicas": 2, "podTemplate": template},
                                                      "attention": {"replicas": 1}}}}
        code, made = self.server.request("POST", objects + "?fieldValidation=Strict", body)
        self.assertEqual(code, 201, made)
        self.assertNotIn("suspend", made["spec"])
        made["status"] = {"observedGeneration": 1, "workerImage": "janus:1"}
        code, made = self.server.request("PUT", f"{objects}/chat/status", made)
        self.assertEqual(code, 200, made)
        refused, _ = self.server.request("PATCH", f"{objects}/chat?fieldValidation=Strict",
                                         {"spec": {"suspend": True}}, "application/merge-patch+json")
        self.assertNotEqual(refused, 200)

        self.assertIn("configured", install(new))
        wait_for(lambda: "suspend" in self.server.request("GET", f"{objects}/chat")[1]["spec"],
                 "the server to read by the new text")
        _, read = self.server.request("GET", f"{objects}/chat")
        # The stored object, with the defaults of the new definition.
        self.assertEqual(read["spec"], {**made["spec"], "suspend": False})
        self.assertEqual(read["spec"]["roles"]["experts"]["podTemplate"], template)
        self.assertEqual(read["status"], made["status"])
        self.assertEqual(read["metadata"], made["metadata"])
        code, changed = self.server.request("PATCH", f"{objects}/chat?fieldValidation=Strict",
                                            {"spec": {"suspend": True}}, "application/merge-patch+json")
        self.assertEqual((code, changed["spec"]["suspend"]), (200, True), changed)
        self.assertEqual(changed["metadata"]["generation"], made["metadata"]["generation"] + 1)

    def test_the_examples_are_taken(self):
        of_others = {"keda.yaml", "prometheus-adapter.yaml"}  # serving/monitoring_test.py has these programs
        examples = [path for folder in (ROOT / "examples", ROOT / "examples" / "autoscaling")
                    for path in sorted(folder.glob("*.yaml")) if path.name not in of_others]
        self.assertGreater(len(examples), 2)
        for path in examples:
            with self.subTest(path.name):
                self.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(path))

    def test_a_scaler_is_scaled_through_its_subresource(self):
        status, body = self.create("moerolescalers", {
            "apiVersion": MINIMAL["apiVersion"], "kind": "MoERoleScaler",
            "metadata": {"name": "chat-experts"},
            "spec": {"service": "chat", "role": "experts", "replicas": 2}})
        self.assertEqual(status, 201, body)
        self.kubectl("patch", "mrs", "chat-experts", "--subresource=status", "--type=merge", "-p",
                     '{"status": {"replicas": 2, "selector": "serving.janus.dev/role=experts"}}')
        self.kubectl("scale", "mrs/chat-experts", "--replicas=5")
        scale = json.loads(self.kubectl("get", "mrs", "chat-experts", "--subresource=scale", "-o", "json"))
        self.assertEqual(scale["spec"]["replicas"], 5)
        self.assertEqual(scale["status"], {"replicas": 2, "selector": "serving.janus.dev/role=experts"})

    def test_the_largest_topology_is_stored(self):
        # 1,280 members with the longest names; 196,608 slots, each with any of 4,096 experts (the most that a layer
        # has). One such topology is committed, the next one proposed, and each member has a status.
        draw = random.Random(1)
        experts = [draw.randrange(4096) for _ in range(196_608)]
        planes = bytes(one & 255 for one in experts) + bytes(one >> 8 for one in experts)
        placement = base64.b64encode(zlib.compress(planes)).decode()
        body = {"apiVersion": MINIMAL["apiVersion"], "kind": "MoETopology", "metadata": {"name": "chat-0", "annotations": {"serving.janus.dev/last-spec": "s" * 8192}},
                "spec": {"fence": 1, "lastEpoch": 2, "committed": topology(1, placement=placement),
                         "proposed": topology(2, placement=placement)}}
        status, made = self.create("moetopologies", body)
        self.assertEqual(status, 201, made)
        at = f"{GROUP}/namespaces/{self.namespace}/moetopologies/chat-0"
        status = {"instances": [{"pod": pod_name(i), "index": 0, "epoch": 1, "since": "2026-01-01T00:00:00Z"}
                                for i in range(1280)]}
        code, said = self.server.request("PUT", f"{at}/status?fieldValidation=Strict", {**made, "status": status})
        self.assertEqual(code, 200, said)
        read = self.server.request("GET", at)[1]
        self.assertEqual((read["spec"], read["status"]), (body["spec"], status))
        size = len(json.dumps(read, separators=(",", ":")))
        print(f"largest topology: {size:,} bytes of {MOST_BYTES:,} that etcd takes", file=sys.stderr)
        self.assertLess(size, MOST_BYTES)

    def test_a_topology_never_goes_back(self):
        body = {"apiVersion": MINIMAL["apiVersion"], "kind": "MoETopology", "metadata": {"name": "chat-0"},
                "spec": {"fence": 3, "lastEpoch": 5, "committed": topology(5, 2)}}
        status, made = self.create("moetopologies", body)
        self.assertEqual(status, 201, made)

        def patch(spec):
            path = f"{GROUP}/namespaces/{self.namespace}/moetopologies/chat-0"
            return self.server.request("PATCH", path, {"spec": spec}, "application/merge-patch+json")
        self.assert_refused(patch({"fence": 2}), "spec.fence", "is 2, less than 3")
        self.assert_refused(patch({"lastEpoch": 4}), "spec.lastEpoch", "is 4, less than 5")
        self.assert_refused(patch({"committed": {"epoch": 4}}), "spec.committed.epoch", "older epoch")
        self.assert_refused(patch({"proposed": topology(6, 2)}), "spec.proposed.epoch",
                            "is 6, more than lastEpoch = 5")
        self.assert_refused(patch({"proposed": topology(5, 2)}), "spec.proposed.epoch",
                            "is 5, not above the committed 5")
        self.assertEqual(patch({"lastEpoch": 6, "proposed": topology(6, 2)})[0], 200)

    def test_rules_cost_a_small_part_of_what_the_server_allows(self):
        # What the API server itself estimates, with the code of the pinned module.
        need_modules("k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel")
        done = subprocess.run(["go", "run", "-trimpath", "./rulecost", *CRDS], cwd=MODULES,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        rules = [int(row[0]) + int(row[1]) for row in rows if "#" in row[-1]]
        total = next(int(row[0]) for row in rows if row[1:] == ["MoEService", "in", "all"])
        print(f"CEL: {len(rules)} rules, {max(rules)} units at the most, {total} for all of MoEService's",
              file=sys.stderr)
        self.assertLess(max(rules), 10_000_000 / 1000)
        self.assertLess(total, 100_000_000 / 1000)

    def test_it_judges_as_janusctl_does(self):
        program = BIN / "print-bad-objects"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev print-bad-objects")
        lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
        wrong = []
        ugly = []
        refused = 0
        versions = {}  # of existing objects, to update their status
        changes = 0
        for line in map(json.loads, lines):
            place = "" if line["plural"] == "hardwareprofiles" else f"/namespaces/{self.namespace}"
            path = f'{GROUP}{place}/{line["plural"]}'
            if line["part"] == "status":
                metadata = line["object"]["metadata"]
                if (line["plural"], metadata["name"]) not in versions:
                    made = {key: value for key, value in line["object"].items() if key != "status"}
                    status, body = self.server.request("POST", path, made)
                    self.assertEqual(status, 201, body)
                    versions[line["plural"], metadata["name"]] = body["metadata"]["resourceVersion"]
                metadata["resourceVersion"] = versions[line["plural"], metadata["name"]]
                path += f'/{metadata["name"]}/status'
            if line["part"] == "change":
                changes += 1
                line["before"]["metadata"]["name"] = line["object"]["metadata"]["name"] = f"change-{changes}"
                status, body = self.server.request("POST", path, line["before"])
                self.assertEqual(status, 201, body)
                line["object"]["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"]
                path += f"/change-{changes}"
            status, body = self.server.request("POST" if line["part"] == "spec" else "PUT",
                                               f"{path}?fieldValidation=Strict&dryRun=All", line["object"])
            if not line["paths"]:
                agrees = status == 201
            elif line["unknown_field"]:
                agrees = status == 400 and any(f'unknown field "{p}"' in body["message"] for p in line["paths"])
            else:
                causes = body["details"].get("causes", ()) if status == 422 else ()
                fields = [re.sub(r"\[([^]0-9][^]]*)\]", r".\1", cause["field"]) for cause in causes]  # limits[cpu]
                agrees = any(field in line["paths"] for field in fields)
                ugly += [cause["message"] for cause in causes
                         if line["part"] == "spec" and ("should match" in cause["message"] or "rule:" in cause["message"])]
            refused += status not in (200, 201)
            if not agrees:
                wrong.append(f'{line["plural"]}: {line["name"]} {line["paths"]}: {status} {body.get("message", "taken")}')
        self.assertEqual(wrong, [])
        self.assertEqual(ugly, [])
        self.assertGreater(changes, 0)
        print(f"{len(lines)} objects judged alike, {refused} of them refused", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
