"""Operators that reach the API server through holding_proxy.py. Each has its own proxy and token."""

import base64
import json
import os
import pathlib
import signal
import subprocess
import sys

from cluster_case import CLUSTER, wait_for

from certificates import CONTROL_PLANE, Certificates
from operator_case import OperatorCase
from rights import write_kubeconfig

HERE = pathlib.Path(__file__).resolve().parent


class HeldCase(OperatorCase):
    def setUp(self):
        super().setUp()
        self.folders, self.tokens = {}, {}

    def start_behind_proxy(self, name, *flags):
        folder = self.folders[name] = self.folder / name
        made = Certificates(folder / "made")
        made.authority("ca")
        made.leaf("server", "/CN=proxy", "serverAuth", "IP:127.0.0.1")
        for one in ("ca.crt", "server.crt", "server.key"):
            os.replace(folder / "made" / one, folder / one)
        proxy = subprocess.Popen(
            [CLUSTER, "run", sys.executable, HERE / "holding_proxy.py", folder, f"{CONTROL_PLANE}:6443",
             self.state_folder() / "pki" / "ca.crt"], env=self.environment)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        wait_for((folder / "port").exists, "the proxy")
        token = self.kubectl("create", "token", "janus-operator", "--duration=2h").strip()
        claims = token.split(".")[1]
        self.tokens[name] = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]
        self.kubeconfig = folder / "operator.kubeconfig"
        write_kubeconfig(self.kubeconfig, token, folder)
        config = json.loads(self.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{(folder / 'port').read_text()}"
        self.kubeconfig.write_text(json.dumps(config))
        process = self.start(name, *flags)
        process.name, process.proxy = name, proxy
        return process

    def hold(self, process, write):
        (self.folders[process.name] / "hold.new").write_text(write)
        (self.folders[process.name] / "hold.new").rename(self.folders[process.name] / "hold")

    def let_go(self, process):
        (self.folders[process.name] / "hold").unlink()

    def answer(self, process):
        """The server's answer to the held request."""
        held = self.folders[process.name] / "held"
        return wait_for(lambda: held.exists() and held.read_text() not in ("", "held") and held.read_text(), "an answer")

    def stop(self, process):
        process.send_signal(signal.SIGSTOP)
        threads = pathlib.Path(f"/proc/{process.pid}/task")

        def are_stopped():
            """All threads are stopped. One that still runs could take a lock, and keep it while it is stopped."""
            try:
                return all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
                           for thread in threads.iterdir())
            except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
                return False
        wait_for(are_stopped, "it to be stopped")
