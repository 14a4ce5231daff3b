"""Services of models that stand on every node, and clients who ask them without a pause."""

import json
import subprocess

from askers import PROMPTS, Askers
from cluster_case import wait_for
from images_case import ImagesCase


class ServedCase(ImagesCase):
    def apply(self, name, model, **spec):
        """A service of a folder of `models`."""
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": name},
            "spec": {"model": {"source": {"type": "HostPath", "hostPath": {"path": f"{self.models}/{model}"}}},
                     "device": "CPU", **spec}}))

    def url(self, service):
        """Where nodes reach it."""
        return f"http://{self.kubectl('get', 'service', service, '-o', 'jsonpath={.spec.clusterIP}')}/v1"

    def await_served(self, service):
        self.kubectl("wait", "--for=condition=Ready", f"moesvc/{service}", "--timeout=300s")
        self.kubectl("rollout", "status", f"deployment/{service}-gateway", "--timeout=300s")
        models = self.nodes[0].box.command("curl", "-sf", "-o", "/dev/null", f"{self.url(service)}/models")
        wait_for(lambda: subprocess.run(models, check=False).returncode == 0, "the node's rules for the Service")

    def ask_demo(self, answers=6):
        """It is asked from now on, and has given so many answers."""
        askers = Askers(self.nodes[0], self.url("demo"))
        self.addCleanup(askers.close)
        askers.await_more(answers)
        return askers

    def check_answers(self, askers):
        """None failed, and all to a prompt were the same."""
        texts = self.answers_of(askers)
        self.assertEqual({prompt: len(texts[prompt]) for prompt in PROMPTS}, {prompt: 1 for prompt in PROMPTS}, texts)
        return texts

    def answers_of(self, askers):
        """None failed; every text that was among the answers, by prompt."""
        seen = askers.end()
        print(f"{self._testMethodName}: {seen['answers']} answers, longest wait for a token "
              f"{seen['longest_wait']:.2f} s", flush=True)
        self.assertEqual(seen["failures"], [])
        return {prompt: set(found) for prompt, found in seen["texts"].items()}
