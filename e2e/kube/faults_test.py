"""operator/kube while the connection to a real API server, and the server itself, fail:
python3 e2e/kube/faults_test.py

Each test runs kube-workload (tests/workload), which changes ConfigMaps in rounds and watches them, and causes faults of
the server meanwhile. The workload must end as if there had been no fault. The audit log must show that every write was
done once.
"""

import base64
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for  # noqa: E402
from limits import limit  # noqa: E402

from certificates import CONTROL_PLANE, Certificates  # noqa: E402
from control_plane import ControlPlane  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
IN_FULL = bool(os.environ.get("JANUS_SOAK"))
OBJECTS = 3
# The server forgets a token one minute after it expired.
LEEWAY_SECONDS = 60
FAULTS = ("429", "500", "503", "reset", "lost", "half", "stall")
# Faults of lists and watches, each once at a random place: an event, or a piece of the reply.
LIST_FAULTS = ("429", "500", "503", "410", "reset", "lost", "stall", "cut", "garble")
WATCH_FAULTS = ("429", "500", "410", "reset", "quiet", "expire", "cut", "hang", "garble")
STREAM_FAULTS = ("500", "reset", "expire", "cut", "hang", "garble")


def encoded(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class FaultsTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.is_given:
            raise unittest.SkipTest("the given cluster is not ours to spoil")
        cls.state = cls.state_folder()
        cls.plane = ControlPlane(cls.state, (cls.state / "programs").resolve())

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-faults-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.kubeconfig = self.state / "pki" / "admin.kubeconfig"

    # The workload.

    def start(self, rounds=0):
        """It runs until its standard input is closed, or for `rounds` rounds."""
        program = BIN / "kube-workload"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev kube-workload")
        process = subprocess.Popen(
            [CLUSTER, "run", "env", f"KUBECONFIG={self.kubeconfig}", program, str(OBJECTS), str(rounds)],
            env={**self.environment, "JANUS_NAMESPACE": self.namespace}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "begins\n")
        return process

    def finish(self, process, earlier=()):
        """Lets it end, and checks what it and the server wrote. `earlier`: writes of another workload."""
        out, errors = process.communicate(timeout=limit(300))
        self.assertEqual(process.returncode, 0, out + errors)
        print(f"{self._testMethodName}: {out.strip()}", file=sys.stderr)
        rounds = int(out.split(" rounds")[0].split()[-1])
        writes = self.writes()[len(earlier):]
        for i in range(OBJECTS):
            self.assertEqual(writes.count(("create", f"w-{i}")), 1, writes)
            self.assertEqual(writes.count(("update", f"w-{i}")), rounds - 1, writes)
        live = json.loads(self.kubectl("get", "configmaps", "-o", "json"))["items"]
        seen = {item["metadata"]["name"]: item["data"]["round"] for item in live if "round" in item["data"]}
        self.assertEqual(seen, {f"w-{i}": str(rounds) for i in range(OBJECTS)})

    def writes(self):
        """(verb, name) of each write of the workload that the server did, from its audit log."""
        done = []
        with open(self.state / "log" / "audit.log", encoding="utf-8") as log:
            for line in log:
                if f'"namespace":"{self.namespace}"' not in line or not line.endswith("\n"):
                    continue
                entry = json.loads(line)
                reference = entry.get("objectRef", {})
                if (reference.get("resource") == "configmaps" and reference.get("name", "").startswith("w-")
                        and entry["verb"] in ("create", "update") and entry["stage"] == "ResponseComplete"
                        and entry["responseStatus"]["code"] in (200, 201)):
                    done.append((entry["verb"], reference["name"]))
        return done

    def await_rounds(self):
        """Waits for two more rounds."""
        count = len(self.writes()) + 2 * OBJECTS
        wait_for(lambda: len(self.writes()) >= count, "two rounds of writes")

    # The proxy.

    def write_kubeconfig(self, **changes):
        config = json.loads((self.state / "pki" / "admin.kubeconfig").read_text())
        config["clusters"][0]["cluster"].update(changes.get("cluster", {}))
        if "user" in changes:
            config["users"][0]["user"] = changes["user"]
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(config))

    def start_proxy(self, faults):
        """Starts the proxy in front of the API server. From now on the workload uses it."""
        pki = self.state / "pki"
        self.new_authority()
        (self.folder / "faults.json").write_text(json.dumps(faults))
        (self.folder / "requests").write_text("")
        (self.folder / "port").unlink(missing_ok=True)
        proxy = subprocess.Popen(
            [CLUSTER, "run", sys.executable, HERE / "fault_proxy.py", self.folder, f"{CONTROL_PLANE}:6443",
             pki / "ca.crt", pki / "admin.crt", pki / "admin.key"], env=self.environment)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        port = self.folder / "port"
        wait_for(port.exists, "the proxy")
        shutil.copy(self.folder / "ca.crt", self.folder / "trusted.crt")
        self.write_kubeconfig(cluster={"server": f"https://127.0.0.1:{port.read_text()}",
                                       "certificate-authority": str(self.folder / "trusted.crt")})
        return proxy

    def new_authority(self):
        """A certificate for the proxy, by a new authority."""
        made = Certificates(self.folder / "made")
        made.authority("ca")
        made.leaf("server", "/CN=proxy", "serverAuth", "IP:127.0.0.1")
        for name in ("ca.crt", "server.crt", "server.key"):
            os.replace(self.folder / "made" / name, self.folder / name)

    def requests(self):
        return [line.split() for line in (self.folder / "requests").read_text().splitlines()]

    # The tests.

    def test_requests_spoiled_at_twenty_places(self):
        self.start_proxy({})
        self.finish(self.start(rounds=8))
        count = len(self.requests())
        self.kubectl("delete", "configmaps", "--all")
        earlier = self.writes()
        seed = self.seed()
        chosen = random.Random(seed)
        places = chosen.sample(range(count), 20)
        faults = {str(place): FAULTS[i % len(FAULTS)] for i, place in enumerate(places)}
        self.start_proxy(faults)
        self.finish(self.start(rounds=8), earlier)
        spoiled = sorted(request[1] for request in self.requests() if request[1] != "-")
        self.assertEqual(spoiled, sorted(faults.values()))
        print(f"seed {seed}, of {count} requests: {' '.join(spoiled)}", file=sys.stderr)

    def test_lists_and_watches_spoiled(self):
        seed = self.seed()
        chosen = random.Random(seed)
        faults = {}
        for kind, known, places in (("list", LIST_FAULTS, 1), ("watch", WATCH_FAULTS, 3), ("stream", STREAM_FAULTS, 3)):
            order = chosen.sample(known, len(known))
            faults[kind] = [f"{fault}@{chosen.randrange(places)}" if fault in ("cut", "hang", "garble") else fault
                            for fault in order]
        self.start_proxy(faults)
        process = self.start()

        def are_spent():
            done = collections.defaultdict(list)
            for _, fault, _, _, kind in self.requests():
                done[kind].append(fault)
            return all(done[kind][:len(planned)] == planned for kind, planned in faults.items()) and done

        done = wait_for(are_spent, "every fault to have come")
        self.await_rounds()
        self.finish(process)
        for kind, planned in faults.items():
            print(f"seed {seed}: {len(planned)} of {len(done[kind])} {kind} requests: {' '.join(planned)}",
                  file=sys.stderr)

    def test_packets_dropped(self):
        rule = ("INPUT", "-p", "tcp", "--dport", "6443", "-j", "DROP")
        process = self.start()
        self.await_rounds()
        self.plane.box.run("iptables", "-I", *rule)
        try:
            line = process.stderr.readline()  # a call has ended
        finally:
            self.plane.box.run("iptables", "-D", *rule)
        self.assertIn("DEADLINE", line.upper())
        self.await_rounds()
        self.finish(process)

    def test_a_token_that_ends(self):
        self.kubectl("create", "serviceaccount", "worker")
        self.kubectl("create", "rolebinding", "worker", "--clusterrole=edit",
                     f"--serviceaccount={self.namespace}:worker")
        token = self.folder / "token"
        token.write_text(self.token(ends_in=5 - LEEWAY_SECONDS))
        self.write_kubeconfig(user={"tokenFile": str(token)})
        process = self.start()
        for line in process.stderr:
            if "401" in line:
                break
        new = self.folder / "token.new"
        new.write_text(self.token(ends_in=600))
        new.rename(token)
        self.await_rounds()
        self.finish(process)

    def token(self, ends_in):
        """A token of a service account, as the API server signs them."""
        account = json.loads(self.kubectl("get", "serviceaccount", "worker", "-o", "json"))
        now = int(time.time())
        claims = {"iss": "https://kubernetes.default.svc", "aud": ["https://kubernetes.default.svc"],
                  "sub": f"system:serviceaccount:{self.namespace}:worker", "iat": now - 120, "nbf": now - 120,
                  "exp": now + ends_in,
                  "kubernetes.io": {"namespace": self.namespace,
                                    "serviceaccount": {"name": "worker", "uid": account["metadata"]["uid"]}}}
        text = ".".join(encoded(json.dumps(part).encode())
                        for part in ({"alg": "RS256", "typ": "JWT"}, claims))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.state / "pki" / "sa.key"],
                                   input=text.encode(), capture_output=True, check=True).stdout
        return f"{text}.{encoded(signature)}"

    def test_an_authority_that_is_replaced(self):
        proxy = self.start_proxy({})
        process = self.start()
        self.await_rounds()
        self.new_authority()
        proxy.send_signal(signal.SIGHUP)
        for line in process.stderr:
            if "certificate" in line:
                break
        os.replace(self.folder / "ca.crt", self.folder / "trusted.crt")
        self.await_rounds()
        self.finish(process)

    def test_etcd_restarted(self):
        process = self.start()
        self.await_rounds()
        self.plane.box.stop("etcd", signal.SIGKILL)
        self.plane.start_etcd()
        self.await_rounds()
        self.finish(process)

    def test_the_api_server_away(self):
        process = self.start()
        self.await_rounds()
        self.plane.box.stop("kube-apiserver", signal.SIGKILL)
        time.sleep(60 if IN_FULL else 5)  # the time without a server is what is tested
        self.plane.start_api_server()
        self.plane.await_ready()
        self.await_rounds()
        self.finish(process)


if __name__ == "__main__":
    unittest.main(verbosity=2)
