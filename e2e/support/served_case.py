"""Services of models that every node has, and clients that ask them without a pause."""

import json
import subprocess

from askers import PROMPTS, Askers
from cluster_case import wait_for
from images_case import ImagesCase
from limits import TIMEOUT

OF_WORKERS, OF_GATEWAYS = "app.kubernetes.io/name=janus-worker", "app.kubernetes.io/component=gateway"


class ServedCase(ImagesCase):
    # Services; the default name is "demo".

    def apply(self, name, model, served_as=None, **spec):
        """Applies a service whose model is a folder of `models`. `served_as`: the model's name for clients."""
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": name},
            "spec": {"model": {"source": {"type": "HostPath", "hostPath": {"path": f"{self.models}/{model}"}},
                               **({"name": served_as} if served_as else {})},
                     "device": "CPU", **spec}}))

    def url(self, service):
        """The URL at which nodes reach it."""
        return f"http://{self.kubectl('get', 'service', service, '-o', 'jsonpath={.spec.clusterIP}')}/v1"

    def page(self, pod):
        """A worker's metrics."""
        address = self.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}")
        return self.nodes[0].box.run("curl", "-sf", f"http://{address}:9100/metrics")

    def await_served(self, service):
        self.kubectl("wait", "--for=condition=Ready", f"moesvc/{service}", TIMEOUT)
        self.kubectl("rollout", "status", f"deployment/{service}-gateway", TIMEOUT)
        models = self.nodes[0].box.command("curl", "-sf", "-o", "/dev/null", f"{self.url(service)}/models")
        wait_for(lambda: subprocess.run(models, check=False).returncode == 0, "the node's rules for the Service")

    def all_pods(self, kind, service="demo"):
        return self.get("pods", "-l", f"serving.janus.dev/service={service},{kind}")["items"]

    def living(self, kind):
        """Pods that are not being deleted, by name."""
        return {pod["metadata"]["name"]: pod for pod in self.all_pods(kind)
                if "deletionTimestamp" not in pod["metadata"]}

    def states(self, kind, service="demo"):
        """Identity, starts and readiness of all pods, by name."""
        found = {}
        for pod in self.all_pods(kind, service):
            ready = [one["status"] for one in pod["status"].get("conditions", []) if one["type"] == "Ready"]
            starts = sum(one["restartCount"] for one in pod["status"].get("containerStatuses", []))
            found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], starts, ready)
        return found

    def epoch(self):
        return self.get("moesvc/demo")["status"]["topology"]["epoch"]

    def condition(self, kind):
        """(status, reason)."""
        found = [one for one in self.get("moesvc/demo")["status"]["conditions"] if one["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else (None, None)

    def is_ready(self):
        return self.condition("Ready")[0] == "True"

    def message(self, kind):
        return next(one["message"] for one in self.get("moesvc/demo")["status"]["conditions"] if one["type"] == kind)

    def signal_container(self, pod, signal):
        """Signals the worker or gateway of a pod, from outside."""
        status, = (one for one in pod["status"]["containerStatuses"] if one["name"] in ("worker", "gateway"))
        node, = (one for one in self.nodes if one.name == pod["spec"]["nodeName"])
        node.ctr("tasks", "kill", "-s", signal, status["containerID"].removeprefix("containerd://"))

    # Clients.

    def ask_demo(self, answers=6):
        """Starts clients, and waits for this many answers."""
        askers = Askers(self.nodes[0], self.url("demo"))
        self.addCleanup(askers.close)
        askers.await_more(answers)
        return askers

    def check_answers(self, askers):
        """Checks that no request failed and that all answers to a prompt were the same."""
        texts = self.answers_of(askers)
        self.assertEqual({prompt: len(texts[prompt]) for prompt in PROMPTS}, {prompt: 1 for prompt in PROMPTS}, texts)
        return texts

    def answers_of(self, askers):
        """Checks that no request failed. Returns every text among the answers, by prompt."""
        seen = askers.end()
        print(f"{self._testMethodName}: {seen['answers']} answers, longest wait for a token "
              f"{seen['longest_wait']:.2f} s", flush=True)
        self.assertEqual(seen["failures"], [])
        return {prompt: set(found) for prompt, found in seen["texts"].items()}
