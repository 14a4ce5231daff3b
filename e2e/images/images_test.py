"""The images, in pods of real kubelets: python3 e2e/images/images_test.py

They are built from this machine's programs by the stages that make the released images (scripts/images), and the chart
installs the operator. The test goes from an object to tokens that a client of the endpoint reads.
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import ROOT, wait_for  # noqa: E402
from cuda_programs import find_cuda_programs  # noqa: E402
from images_case import CHART, PYTHON, REGISTRY, ImagesCase  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from made_images import configuration, made_images  # noqa: E402
from tiers import required  # noqa: E402

# Connects to a worker's gRPC port, plain or with a certificate and key (PEM), and prints whether the connection stays
# open.
KNOCK = """
import socket, ssl, sys, tempfile
address, pair = sys.argv[1], sys.argv[2]
door = socket.create_connection((address, 9000), timeout=300)
if pair:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(pair)
        file.flush()
        context.load_cert_chain(file.name)
    door = context.wrap_socket(door)
door.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0")
try:
    # A server that takes it answers with its settings, a frame of type 4.
    said = door.recv(9)
    print("open" if len(said) > 3 and said[3] == 4 else "closed")
except OSError:
    print("closed")
"""


class ImagesTest(ImagesCase):
    def test_the_operator_runs_as_the_chart_installs_it(self):
        pods = json.loads(self.kubectl("-n", "janus-system", "get", "pods", "-o", "json", namespaced=False))["items"]
        self.assertEqual(len(pods), 2)
        self.assertEqual({pod["spec"]["nodeName"] for pod in pods}, {"node1", "node2"})
        for pod in pods:
            self.assertEqual(pod["status"]["containerStatuses"][0]["restartCount"], 0)
        self.assertIn("http://janus-operator-metrics.janus-system.svc:8081 is ready: ok",
                      self.helm("test", "janus-operator", "--logs", TIMEOUT))

    def test_images_say_what_they_are_and_run_as_nobody(self):
        self.assertEqual(len(self.images), 3)
        for archive in self.archives:
            config = configuration(archive)
            self.assertEqual(config["User"], "65532:65532")
            self.assertEqual(config["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")

    def apply(self, name, **more):
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": name},
            "spec": {"model": {"source": {"type": "HostPath", "hostPath": {"path": f"{self.models}/demo"}},
                               "dtype": "Float32"},
                     "device": "CPU",
                     "roles": {"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 2}},
                     "gateway": {"replicas": 1}, **more}}))

    def give_nodes_the_cuda_image(self):
        """Gives nodes the worker image with CUDA if one was compiled, and otherwise the plain one under its name. Returns
        its name, and what its worker reports."""
        name = self.images[-1].replace("worker-cpu", "worker-cuda")
        self.assertNotEqual(name, self.images[-1])
        programs, why_none = find_cuda_programs()
        if programs is None:
            if "cuda" in required():
                self.fail(why_none)
            print(f"the worker is one of CPUs: {why_none}", file=sys.stderr)
            for node in self.nodes:
                node.ctr("images", "tag", self.images[-1], name)
            return name, "--device cuda: this build has no CUDA"
        names, archives = made_images(programs, REGISTRY, ("worker-cuda",))
        self.assertEqual(names, [name])
        self.give_nodes(archives)
        return name, "--device cuda: no GPU that can be used: cudaErrorInsufficientDriver"

    def test_workers_on_gpus_have_the_image_for_them_and_say_what_their_node_lacks(self):
        """Its nodes claim to have GPUs, but no pod gets one."""
        image, words = self.give_nodes_the_cuda_image()
        gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        self.apply("demo", device="Auto", roles={"attention": {"replicas": 1, **gpu},
                                                 "experts": {"replicas": 2, **gpu}})

        def said(role):
            for one in self.get("moesvc", "demo").get("status", {}).get("conditions", []):
                if one["type"] == role and one["reason"] == "CrashLooping":
                    return one["message"]
            return ""

        for role in ("AttentionReady", "ExpertsReady"):
            wait_for(lambda role=role: said(role), f"{role} to say how its workers end")
            self.assertIn(words, said(role))
        self.assertEqual(self.get("moesvc", "demo")["status"]["workerImage"], image)
        pods = self.get("pods", "-l", "serving.janus.dev/role")["items"]
        self.assertEqual(len(pods), 3)
        for pod in pods:
            worker = pod["spec"]["containers"][0]
            self.assertEqual(worker["image"], image)
            self.assertIn("--device=cuda", worker["args"])
            self.assertEqual(worker["resources"]["limits"], {"nvidia.com/gpu": "1"})

    def pair(self, service, role):
        """Certificate and key of a role."""
        data = json.loads(self.kubectl("get", "secret", f"{service}-{role}-tls", "-o", "json"))["data"]
        return "".join(base64.b64decode(data[name]).decode() for name in ("tls.crt", "tls.key"))

    def knock(self, address, pair):
        return self.nodes[0].box.run(PYTHON, "-c", KNOCK, address, pair).strip()

    def refused(self, address, reason):
        page = self.nodes[0].box.run("curl", "-sf", f"http://{address}:9100/metrics")
        return float(re.search(rf'janus_connections_refused_total{{reason="{reason}"}} (\S+)', page)[1])

    def test_who_is_no_member_is_refused_and_counted(self):
        self.apply("demo")
        self.apply("other", suspend=True)
        self.kubectl("wait", "--for=condition=Ready", "moesvc/demo", TIMEOUT)
        effective = self.kubectl("get", "moesvc", "demo", "-o", "jsonpath={.status.effective.tls}")
        self.assertEqual(effective, "Enabled")
        worker = self.kubectl("get", "pods", "-l", "serving.janus.dev/role=experts", "-o",
                              "jsonpath={.items[0].status.podIP}")
        wait_for(lambda: self.try_kubectl("-n", self.namespace, "get", "secret", "other-gateway-tls").returncode == 0,
                 "the other service's certificates")
        own = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                              "-nodes", "-subj", "/CN=me", "-days", "1", "-keyout", "/dev/stdout"],
                             capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.knock(worker, self.pair("demo", "gateway")), "open")
        for pair, reason in (("", "handshake"), (own, "unknown_authority"),
                             (self.pair("other", "experts"), "unknown_authority")):
            before = self.refused(worker, reason)
            self.assertEqual(self.knock(worker, pair), "closed")
            wait_for(lambda before=before, reason=reason: self.refused(worker, reason) == before + 1,
                     f"a refusal for {reason}")

    def test_a_wrong_path_is_named_with_the_names_beside_it(self):
        """From the worker's start it takes the readiness probe and one question of the operator, not a restart."""
        since = time.monotonic()
        self.apply("demo", model={"source": {"type": "Image", "image": {"path": "/models/demoo"}}, "dtype": "Float32"})
        self.kubectl("wait", "--for=jsonpath={.status.conditions[?(@.type=='TopologyReady')].reason}=ModelNotFound",
                     "moesvc/demo", TIMEOUT)
        print(f"the wrong path is named after {time.monotonic() - since:.1f} s", flush=True)
        pods = json.loads(self.kubectl("get", "pods", "-l", "app.kubernetes.io/name=janus-worker", "-o", "json"))["items"]
        self.assertEqual({one["restartCount"] for pod in pods for one in pod["status"].get("containerStatuses", [])}, {0})
        told = {one["type"]: one for one in self.get("moesvc", "demo")["status"]["conditions"]}
        self.assertRegex(told["Ready"]["message"],
                         r"^pod demo-\S+: /models/demoo: no such folder; .*; /models has: demo; correct spec\.model\.source, or "
                         r"put the model there \(missing since \S+Z\)$")
        # Pods that never served are replaced.
        self.apply("demo", model={"source": {"type": "Image", "image": {"path": "/models/demo"}}, "dtype": "Float32"})
        self.kubectl("wait", "--for=condition=Ready", "moesvc/demo", TIMEOUT)

    def test_an_object_becomes_pods_that_answer(self):
        self.apply("demo")
        self.kubectl("wait", "--for=condition=Ready", "moesvc/demo", TIMEOUT)
        address = self.kubectl("get", "service", "demo", "-o", "jsonpath={.spec.clusterIP}")
        wait_for(lambda: self.kubectl("get", "deployment", "demo-gateway", "-o",
                                      "jsonpath={.status.readyReplicas}") == "1", "the gateway")
        # On a node, where the Service has an address.
        said = self.nodes[0].box.run(PYTHON, ROOT / "examples" / "chat.py",
                                     "--base-url", f"http://{address}/v1", "Elizabeth looked out of the window.")
        self.assertRegex(said, r"demo: \S+( \S+){3}")
        # Other tests find the release as it was installed.
        self.addCleanup(self.helm, "rollback", "janus-operator", "1", "--wait", TIMEOUT)
        self.helm("upgrade", "janus-operator", CHART, "--wait", TIMEOUT,
                  *self.settings(test__service="demo", test__namespace=self.namespace))
        self.assertRegex(self.helm("test", "janus-operator", "--logs", TIMEOUT),
                         rf"http://demo\.{self.namespace}\.svc answered with \d+ tokens of demo: Once upon a time.+")


if __name__ == "__main__":
    unittest.main(verbosity=2)
