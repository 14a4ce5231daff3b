"""Which connections are accepted, and with which certificates: python3 e2e/certificates/certificates_test.py

Two services run in real pods on two nodes. One of them is asked without a pause. Meanwhile all its certificates are
issued again, at the end by another authority. A pod of the other service tries to connect to its workers, to their gRPC
and exchange ports. None of the requests may fail, and every answer to a prompt must be the same.
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
from images_case import PYTHON  # noqa: E402
from limits import TIMEOUT  # noqa: E402
from served_case import ServedCase  # noqa: E402

WORKERS, GATEWAYS = ("attention", "experts"), ("gateway",)
CALLS = "janus.v1.Control"
EMPTY_MESSAGE = bytes(5)  # in gRPC's frame

# Prints the certificate that a worker shows in a handshake. The worker requires one from the client; any certificate is
# enough to see the worker's.
SHOWN = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.load_cert_chain(sys.argv[2] + "/tls.crt", sys.argv[2] + "/tls.key")
with context.wrap_socket(socket.create_connection((sys.argv[1], 9000), timeout=300)) as door:
    print(ssl.DER_cert_to_PEM_cert(door.getpeercert(True)))
"""

# A client at a worker's exchange port. It sends a complete HELLO (dataplane/comm/wire/wire.h) as experts 0 of an epoch
# but does not know the epoch's key. Prints the answer.
VERSION = re.search(r"kProtocolVersion = (\d+);", (ROOT / "dataplane/comm/wire/wire.h").read_text())[1]
HELLO = f"""
import os, socket, struct, sys
with socket.create_connection((sys.argv[1], 9001), timeout=300) as door:
    unknown = struct.unpack("<QQQQ", os.urandom(32))
    door.sendall(struct.pack("<8sIBBHQQQQQ64s256sIB3x", b"jnhello3", {VERSION}, 1, 0, 0, int(sys.argv[2]), *unknown,
                             b"cpu avx2 bf16 tp1", b"", 0, 1))
    answer = door.recv(384, socket.MSG_WAITALL)
print(answer[120:376].rstrip(bytes(1)).decode())
"""

# Clients at the exchange ports that send nothing, random bytes, or endless random bytes, until standard input ends.
STRANGERS = """
import os, socket, sys
doors = []
for port in (9001, *range(9200, 9232)):
    for noise in (0, 20, 1 << 20):
        try:
            door = socket.create_connection((sys.argv[1], port), timeout=300)
        except ConnectionRefusedError:
            break
        door.setblocking(False)
        try:
            door.send(os.urandom(noise))
        except OSError:
            pass
        doors.append(door)
print(len(doors), flush=True)
sys.stdin.read()
"""


class CertificatesTest(ServedCase):
    # A new authority is trusted for this long before it signs: longer than the kubelets of this suite need.
    values = {"certificates__spreadSeconds": 10}

    def pods(self, roles, service="demo"):
        return [pod for pod in self.get("pods", "-l", f"serving.janus.dev/service={service}")["items"]
                if pod["metadata"]["labels"].get("serving.janus.dev/role", "gateway") in roles]

    def who_runs(self):
        """The identity and starts of all pods, and the epoch."""
        return ({pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"]
                 for pod in self.pods(WORKERS + GATEWAYS)}, self.get("moesvc/demo")["status"]["topology"]["epoch"])

    # Secrets.

    def secret(self, role, service="demo"):
        data = self.get(f"secret/{service}-{role}-tls")["data"]
        return {name: base64.b64decode(value).decode() for name, value in data.items()}

    def folder_of(self, name, pair):
        """Writes a Secret as pods get it, into a folder that every machine sees."""
        folder = self.models / name
        folder.mkdir(exist_ok=True)
        for file, text in pair.items():
            (folder / file).write_text(text)
        return folder

    def authorities(self):
        """The authorities that all roles trust, or None if roles differ."""
        found = {tuple(re.findall("-----BEGIN.*?-----END CERTIFICATE-----", self.secret(role)["ca.crt"], re.S))
                 for role in WORKERS + GATEWAYS}
        return set(found.pop()) if len(found) == 1 else None

    def forged(self):
        """A certificate of an authority that has the same name as the service's, but another key."""
        folder = self.models / "forged"
        folder.mkdir(exist_ok=True)
        for words in (("-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt"),
                      ("-subj", "/CN=gateway", "-keyout", "tls.key", "-out", "tls.crt", "-CA", "ca.crt", "-CAkey",
                       "ca.key", "-addext", "subjectAltName=URI:spiffe://cluster.local/ns/"
                       f"{self.namespace}/moeservice/demo/gateway")):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "1", *words], cwd=folder, check=True, capture_output=True)
        return folder

    # Certificate renewal.

    def all_show_their_last(self):
        """Kubelets read Secrets about once a minute, or when a pod is changed."""
        pair = self.folder_of("asking", self.secret("gateway"))
        wanted = {role: self.secret(role)["tls.crt"].strip() for role in WORKERS}
        pods = self.pods(WORKERS + GATEWAYS)
        self.looks += 1
        self.kubectl("annotate", "pods", "--overwrite", *(pod["metadata"]["name"] for pod in pods),
                     f"looked={self.looks}")
        return all(self.nodes[0].box.run(PYTHON, "-c", SHOWN, pod["status"]["podIP"], pair).strip()
                   == wanted[pod["metadata"]["labels"]["serving.janus.dev/role"]] for pod in self.pods(WORKERS))

    def test_nobody_notices_that_all_are_issued_anew(self):
        self.looks = 0
        self.apply("demo", "demo", roles={"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 2}},
                   gateway={"replicas": 1})
        self.await_served("demo")
        askers = self.ask_demo()
        before, old, key = self.who_runs(), self.authorities(), self.secret("attention")["tls.key"]
        start = time.monotonic()
        self.kubectl("annotate", "moesvc", "demo", "serving.janus.dev/certificatesRenewedAt=now")
        wait_for(lambda: self.secret("attention")["tls.key"] != key, "other keys")
        # The operator's certificate authority stays.
        wait_for(lambda: self.all_show_their_last() and len((self.authorities() or old) & old) == 1,
                 "the end of the old authority")
        wait_for(self.all_show_their_last, "every worker to show its last certificate")
        print(f"{time.monotonic() - start:.0f} s until nobody knew the old authority", flush=True)
        askers.await_more(6)
        self.assertEqual(self.who_runs(), before)
        # New connections use the new certificates: the operator and its relay connect to one more pod, and one more
        # gateway connects to all workers.
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     '{"spec": {"roles": {"experts": {"replicas": 3}}, "gateway": {"replicas": 2}}}')
        self.kubectl("wait", "--for=jsonpath={.status.topology.n}=3", "moesvc/demo", TIMEOUT)
        self.await_served("demo")
        askers.await_more(6)
        self.check_answers(askers)

    # Connections that are refused.

    def network_of(self, pod):
        """The first words of a command that runs in the pod's network, on its node."""
        node = next(node for node in self.nodes if node.box.name == pod["spec"]["nodeName"])
        look = (f'for n in /run/netns/*; do nsenter --net=$n ip -o -4 addr | grep -qF "inet {pod["status"]["podIP"]}/" '
                '&& echo $n; done; true')
        return lambda *words: node.box.command("nsenter", f"--net={node.box.run('sh', '-c', look).strip()}",
                                               *(str(word) for word in words))

    def refused(self, pod):
        """Connections that a worker refused, by reason."""
        page = self.nodes[0].box.run("curl", "-sf", f"http://{pod['status']['podIP']}:9100/metrics")
        return {reason: float(value) for reason, value in
                re.findall(r'^janus_connections_refused_total{.*?reason="([^"]*)".*?} (\S+)$', page, re.M)}

    def test_strangers_are_refused_and_counted(self):
        roles = {"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 1}}
        for name in ("demo", "other"):
            self.apply(name, "demo", roles=roles, gateway={"replicas": 1})
        for name in ("demo", "other"):
            self.await_served(name)
        askers = self.ask_demo()
        before = self.who_runs()
        pod = self.network_of(self.pods(GATEWAYS, "other")[0])
        message = self.models / "message"
        message.write_bytes(EMPTY_MESSAGE)
        folders = {"unknown_authority": self.forged(),
                   "other": self.folder_of("other", self.secret("gateway", "other")),
                   "role": self.folder_of("member", self.secret("gateway"))}

        def call(worker, scheme, *words):
            # A server may answer before it has received the whole request, and then reset the stream (RFC 9113, 8.1).
            # If this curl has not sent everything, it drops the answer and exits with 92.
            for _ in range(5):
                said = subprocess.run(
                    pod("curl", "-sS", "-i", "-k", "--max-time", "60", "-H", "content-type: application/grpc", "-H",
                        "te: trailers", "--data-binary", f"@{message}", *words,
                        f"{scheme}://{worker['status']['podIP']}:9000/{CALLS}/Commit"),
                    capture_output=True, text=True, check=False)
                if said.returncode != 92 or said.stdout:
                    break
            return said

        for worker in self.pods(WORKERS):
            # The authority of another service is unknown here.
            for reason, words in (("handshake", ("http", "--http2-prior-knowledge")),
                                  ("handshake", ("https", "--http2")),
                                  *((reason if reason == "role" else "unknown_authority",
                                     ("https", "--http2", "--cert", folder / "tls.crt", "--key", folder / "tls.key"))
                                    for reason, folder in folders.items())):
                with self.subTest(role=worker["metadata"]["labels"]["serving.janus.dev/role"], words=words):
                    counted = self.refused(worker)
                    said = call(worker, *words)
                    self.assertNotEqual(said.returncode, 28, "no end within its deadline")
                    if reason == "role":
                        self.assertIn("grpc-status: 7", said.stdout, said)
                    else:
                        self.assertNotIn("grpc-status", said.stdout)
                        self.assertNotEqual(said.returncode, 0)
                    wait_for(lambda: self.refused(worker)[reason] > counted[reason], f"a count of {reason}")
                    now = self.refused(worker)
                    self.assertEqual({one for one in now if now[one] > counted[one]}, {reason})

        # Clients that wait at the exchange ports must not block the preparation of an epoch, and are disconnected.
        before_strangers = {worker["metadata"]["name"]: self.refused(worker) for worker in self.pods(WORKERS)}
        for worker in self.pods(WORKERS):
            strangers = subprocess.Popen(pod(PYTHON, "-c", STRANGERS, worker["status"]["podIP"]), text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(strangers.communicate)
            # Three at each open port: the exchange's and UCX's.
            self.assertGreaterEqual(int(strangers.stdout.readline()), 6)
        askers.await_more(6)
        self.assertEqual(self.who_runs(), before)
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     '{"spec": {"roles": {"experts": {"replicas": 2}}}}')
        self.kubectl("wait", "--for=jsonpath={.status.topology.n}=2", "moesvc/demo", TIMEOUT)
        askers.await_more(6)
        for worker in self.pods(WORKERS):
            counted = before_strangers.get(worker["metadata"]["name"])
            for reason in ("exchange_malformed", "exchange_timeout") if counted else ():
                wait_for(lambda: self.refused(worker)[reason] > counted[reason], f"a count of {reason}")

        # After the change: clients that know the old epoch, or its key.
        epoch = self.get("moesvc/demo")["status"]["topology"]["epoch"]
        pod = self.network_of(self.pods(GATEWAYS, "other")[0])
        for worker in self.pods(WORKERS):
            for said, answer, reason in ((epoch - 1, f"experts 0 has epoch {epoch - 1}, ", "exchange_epoch"),
                                         (epoch, "experts 0 has another epoch key than ", "exchange_key")):
                with self.subTest(role=worker["metadata"]["labels"]["serving.janus.dev/role"], reason=reason):
                    counted = self.refused(worker)
                    self.assertIn(answer, subprocess.run(
                        pod(PYTHON, "-c", HELLO, worker["status"]["podIP"], said),
                        capture_output=True, text=True, check=True).stdout)
                    self.assertEqual(self.refused(worker)[reason], counted[reason] + 1)
        askers.await_more(6)
        self.assertEqual(self.get("moesvc/demo")["status"]["topology"]["epoch"], epoch)
        self.check_answers(askers)


if __name__ == "__main__":
    unittest.main(verbosity=2)
