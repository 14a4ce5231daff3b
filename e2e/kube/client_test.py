"""operator/kube on a real API server: python3 e2e/kube/client_test.py"""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from cluster_case import CLUSTER, ROOT, ClusterCase, wait_for  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))


class ClientTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.install_crds()

    def test_it_conforms_to_the_suite(self):
        # Pods are refused until their service account exists.
        wait_for(lambda: self.try_kubectl("-n", self.namespace, "get", "serviceaccount", "default")
                 .returncode == 0, "the namespace's default service account")
        program = BIN / "kube-conformance"
        self.assertTrue(program.exists(), f"no {program}; ninja -C build/dev kube-conformance")
        command = [program] if self.is_given else [CLUSTER, "run", program]
        done = subprocess.run(command, env={**self.environment, "JANUS_NAMESPACE": self.namespace},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(done.stdout.strip().splitlines()[-1], file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
