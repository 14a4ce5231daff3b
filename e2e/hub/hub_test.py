"""Services whose model comes from a hub, in real pods on two nodes: python3 e2e/hub/hub_test.py

The hub is that of the tests (tests/support/python/test_hub.py), on the control plane's address. The claim is a folder that
both nodes have. A download that is killed or cut off continues; what cannot be fetched is one condition, and no worker starts.
"""

import concurrent.futures
import ctypes
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support" / "python"))

from cluster_case import ROOT, wait_for  # noqa: E402
from served_case import OF_WORKERS, ServedCase  # noqa: E402
from test_hub import Fault, Repo, TestHub  # noqa: E402

from certificates import CONTROL_PLANE  # noqa: E402

DEMO = ROOT / "examples" / "demo-model"
SMALL = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
OF_ATTENTION, OF_EXPERTS = "attention.safetensors", "experts.safetensors"
OF_BOTH = "gates.safetensors"
TOKEN = "hf_secret"
CUT = 3_000_000  # bytes of the weights


def demo_files():
    return {name: (DEMO / name).read_bytes() for name in (*SMALL, WEIGHTS)}


def split_files():
    """The demo model with a file of weights for each role, and one for both: either may compute the gate."""
    data = (DEMO / WEIGHTS).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:begin])
    tensors.pop("__metadata__", None)
    parts = {OF_ATTENTION: ({}, b""), OF_EXPERTS: ({}, b""), OF_BOTH: ({}, b"")}
    for name, tensor in tensors.items():
        is_moe = ".block_sparse_moe." in name or ".mlp." in name
        file = OF_BOTH if is_moe and ".gate." in name else OF_EXPERTS if is_moe else OF_ATTENTION
        header, content = parts[file]
        first, last = tensor["data_offsets"]
        header[name] = {**tensor, "data_offsets": [len(content), len(content) + last - first]}
        parts[file] = (header, content + data[begin + first:begin + last])
    files = {name: (DEMO / name).read_bytes() for name in SMALL}
    for file, (header, content) in parts.items():
        text = json.dumps(header).encode()
        files[file] = len(text).to_bytes(8, "little") + text + content
    places = {name: file for file, (header, _) in parts.items() for name in header}
    return files | {INDEX: json.dumps({"metadata": {}, "weight_map": places}).encode()}


def in_network_of(pid, make):
    """The result of make() on a thread in that process's network. Threads that it starts stay there."""
    def run():
        with open(f"/proc/{pid}/ns/net", encoding="ascii") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return make()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


class HubTest(ServedCase):
    @classmethod
    def settings(cls, **more):
        """Starts the hub, whose endpoint is one of them."""
        if not hasattr(cls, "hub"):
            cls.hub = in_network_of(cls.plane.box.pid(), lambda: TestHub(
                {}, TOKEN, address=CONTROL_PLANE, store=CONTROL_PLANE))
            cls.addClassCleanup(cls.hub.close)
            cls.node_folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-node-"))
            cls.addClassCleanup(shutil.rmtree, cls.node_folder)
        return super().settings(hub__endpoint=cls.hub.endpoint, hostPaths=f"{{{cls.models},{cls.node_folder}}}", **more)

    def setUp(self):
        super().setUp()
        # Pods of the test before share the hub.
        wait_for(lambda: not self.kubectl("get", "pods", "-A", "-l", "serving.janus.dev/service", "-o", "name",
                                          namespaced=False), "the end of earlier services")
        with self.hub.lock:
            self.hub.got.clear()
            self.hub.faults.clear()
            self.hub.repos.clear()

    def offer(self, repo):
        self.hub.repos["org/moe"] = repo

    def make_claim(self):
        """A claim "models", bound by hand to a folder that every node has."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-claim-"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o777)
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        name = self.namespace
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
             "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)},
                      "claimRef": {"name": "models", "namespace": self.namespace}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"name": "models", "namespace": self.namespace},
             "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}}]}),
            namespaced=False)
        self.addCleanup(self.try_kubectl, "delete", "persistentvolume", name, "--wait=false")
        return folder

    def apply_hub(self, has_claim=False, token=None, cache=None, name="demo", **source):
        if has_claim:
            cache = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "models"}}
        if token is not None:
            self.kubectl("create", "secret", "generic", "hub", f"--from-literal=token={token}")
            source["tokenSecretRef"] = {"name": "hub", "key": "token"}
        self.kubectl("apply", "-f", "-", text=json.dumps({
            "apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": name},
            "spec": {"model": {"source": {"type": "HuggingFace", "huggingFace": {"repo": "org/moe"} | source},
                               **({"cache": cache} if cache else {})},
                     "device": "CPU", "gateway": {"replicas": 1},
                     "roles": {"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 2}}}}))

    def answer(self):
        asked = json.dumps({"model": "demo", "prompt": "It is a truth", "max_tokens": 12, "temperature": 0})
        said = self.nodes[0].box.run("curl", "-sf", f"{self.url('demo')}/completions", "-H",
                                     "content-type: application/json", "-d", asked)
        return json.loads(said)["choices"][0]["text"]

    def await_condition(self, kind, reason, *words, name="demo"):
        """Its message, once it has the words: the scheduler's and the kubelet's may come before the program's."""
        def found():
            for one in self.get(f"moesvc/{name}").get("status", {}).get("conditions", []):
                if one["type"] == kind and one["reason"] == reason and all(word in one["message"] for word in words):
                    return one["message"]
            return None

        return wait_for(found, f"{kind} of {name} to be {reason} with {words}")

    def pods_of_job(self):
        return [pod for pod in self.all_pods("app.kubernetes.io/component=fetch")
                if "deletionTimestamp" not in pod["metadata"]]

    def model_status(self):
        return self.get("moesvc/demo").get("status", {}).get("model", {})

    # Whole downloads.

    def test_a_claim_is_filled_once_whatever_interrupts_it(self):
        folder = self.make_claim()
        repo = Repo(demo_files(), private=True)
        self.offer(repo)
        held = threading.Event()
        self.addCleanup(held.set)
        # Cut off, continued, and held until its pod is killed.
        self.hub.faults[WEIGHTS] = [Fault(after=CUT, cut=True), Fault(after=CUT, hold=held)]
        self.apply_hub(has_claim=True, token=TOKEN)
        message = self.await_condition("Progressing", "FetchingModel")
        self.assertIn("fetches org/moe", message)
        wait_for(lambda: len(self.hub.starts(WEIGHTS)) == 2, "the second request")
        [half] = folder.glob("models--org--moe/blobs/*.incomplete")
        wait_for(lambda: half.stat().st_size == 2 * CUT, "the bytes before the kill")
        size = len(demo_files()[WEIGHTS])
        wait_for(lambda: self.model_status().get("download", {}).get("bytes") == 2 * CUT, "the progress in the status")
        self.assertEqual(self.model_status()["download"],
                         {"percent": 200 * CUT // size, "bytes": 2 * CUT, "bytesTotal": size, "files": 0, "filesTotal": 1})
        self.await_condition("Progressing", "FetchingModel", f"{200 * CUT / size:.0f} % of ", "0 of 1 files")
        self.assertIn(str(200 * CUT // size), self.kubectl("get", "moesvc/demo", "-o", "wide").splitlines()[1].split())
        self.assertEqual(self.all_pods(OF_WORKERS), [])
        [killed] = self.pods_of_job()
        self.kubectl("delete", "pod", killed["metadata"]["name"], "--grace-period=0", "--force")
        self.await_served("demo")
        held.set()
        self.assertNotIn("download", self.model_status())
        self.assertEqual(self.hub.starts(WEIGHTS), [0, CUT, 2 * CUT])
        commit = repo.revisions["main"]
        self.assertEqual({name: self.model_status()[name] for name in ("repo", "revision", "bytes")},
                         {"repo": "org/moe", "revision": commit, "bytes": size})
        text = self.answer()
        self.assertTrue(text)

        # The branch moves on; another instance gets the commit of the others, without the hub.
        repo.commit({**demo_files(), "config.json": b"{}"})
        before = self.hub.fetched()
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     json.dumps({"spec": {"roles": {"experts": {"replicas": 3}}}}))
        wait_for(lambda: len(self.living(OF_WORKERS)) == 4 and self.is_ready(), "the third expert instance")
        self.assertEqual(self.answer(), text)
        self.assertEqual(self.hub.fetched(), before)
        for pod in self.get("pods")["items"]:
            whole = json.dumps(pod["spec"])
            is_job = pod["metadata"]["labels"].get("app.kubernetes.io/component") == "fetch"
            self.assertEqual("HF_TOKEN" in whole, is_job, pod["metadata"]["name"])
        reasons = {one["reason"] for one in self.get("events")["items"]}
        self.assertLessEqual({"ModelFetching", "ModelFetched"}, reasons)
        self.kubectl("delete", "moesvc", "demo")
        wait_for(lambda: not self.get("jobs")["items"], "the end of the Job")

    def test_without_a_cache_each_pod_fetches_its_role(self):
        self.offer(Repo(split_files(), gated=True))
        self.apply_hub(token=TOKEN)
        self.await_served("demo")
        fetched = self.hub.fetched()
        self.assertEqual({file: fetched.count(file) for file in (OF_ATTENTION, OF_EXPERTS)},
                         {OF_ATTENTION: 1, OF_EXPERTS: 2})
        sizes = {file: len(content) for file, content in split_files().items()}
        print(f"bytes of attention: {sizes[OF_ATTENTION]}, of experts: {sizes[OF_EXPERTS]}", flush=True)
        text = self.answer()
        self.apply("whole", "demo", served_as="demo", gateway={"replicas": 1},
                   roles={"attention": {"replicas": 1, "maxBatchSize": 16}, "experts": {"replicas": 1}})
        self.await_served("whole")
        asked = json.dumps({"model": "demo", "prompt": "It is a truth", "max_tokens": 12, "temperature": 0})
        said = self.nodes[0].box.run("curl", "-sf", f"{self.url('whole')}/completions", "-H",
                                     "content-type: application/json", "-d", asked)
        self.assertEqual(json.loads(said)["choices"][0]["text"], text)
        for pod in self.all_pods(OF_WORKERS):
            self.assertNotIn("HF_TOKEN", json.dumps(pod["spec"]["containers"]))

    # The two nodes of the tests have the same folders, so this is one node's.
    def test_pods_fill_a_nodes_folder_once(self):
        self.offer(Repo(split_files()))
        cache = {"type": "Node", "node": {"path": str(self.node_folder / "cache")}}
        self.apply_hub(cache=cache)
        self.await_served("demo")
        text = self.answer()
        self.assertTrue(text)
        fetched = self.hub.fetched()
        self.assertEqual({file: fetched.count(file) for file in (OF_ATTENTION, OF_EXPERTS)},
                         {OF_ATTENTION: 1, OF_EXPERTS: 1}, "though two expert instances read it")
        self.kubectl("delete", "moesvc", "demo")
        wait_for(lambda: not self.get("pods")["items"], "the end of the service's pods")
        self.apply_hub(cache=cache)
        self.await_served("demo")
        self.assertEqual(self.answer(), text)
        fetched = self.hub.fetched()
        self.assertEqual({file: fetched.count(file) for file in (OF_ATTENTION, OF_EXPERTS)},
                         {OF_ATTENTION: 1, OF_EXPERTS: 1}, "the files stay on the node")

    # What cannot be fetched.

    def check_failure(self, *words):
        self.await_condition("Progressing", "ModelFetchFailed", *words)
        self.assertEqual(self.condition("Ready"), ("False", "ModelFetchFailed"))
        self.assertEqual(self.all_pods(OF_WORKERS), [])
        wait_for(lambda: "ModelFetchFailed" in {one["reason"] for one in self.get("events")["items"]}, "the event")

    def test_a_model_that_does_not_exist_is_one_condition(self):
        self.apply_hub()
        self.check_failure("org/moe: the hub has no such model")
        self.offer(Repo(demo_files()))
        self.await_served("demo")

    def test_a_gated_model_without_a_token_is_one_condition(self):
        self.offer(Repo(demo_files(), gated=True))
        self.apply_hub()
        self.check_failure("org/moe is gated", "accept its licence")

    def test_a_missing_secret_is_one_condition(self):
        self.offer(Repo(demo_files()))
        self.apply_hub(tokenSecretRef={"name": "none", "key": "token"})
        self.check_failure("secret \"none\" not found")

    def test_each_fault_of_the_hub_is_one_condition(self):
        """In one service each, so that their Jobs wait at the same time."""
        folder = self.make_claim()
        loop = Fault(status=302, headers={"Location": "/org/circle/resolve/main/config.json"})
        again = {"Retry-After": "0"}
        words = {
            "limited": (Fault(status=429, headers={"Retry-After": "3600"}), "(status 429); wait 3600 s, as it asks"),
            "faulty": (Fault(status=503, headers=again), "answers with status 503; the hub has a fault, try again later"),
            "circle": (loop, "redirects without end"),
            "cut": (Fault(after=0, cut=True), "the connection to the hub breaks off, try again later"),
            "full": (None, "the disk is full (No space left on device)")}
        for name, (fault, _) in words.items():
            self.hub.repos[f"org/{name}"] = Repo(demo_files())
            if fault is not None:
                self.hub.faults[f"org/{name}:{'listing' if fault.status in (429, 503) else 'config.json'}"] = [fault] * 1000
        sha256 = hashlib.sha256(demo_files()[WEIGHTS]).hexdigest()
        blobs = folder / "models--org--full" / "blobs"
        blobs.mkdir(parents=True)
        (blobs / f"{sha256}.incomplete").symlink_to("/dev/full")
        for path in (blobs.parent, blobs):
            path.chmod(0o777)
        for name in words:
            self.apply_hub(name=name, has_claim=name == "full", repo=f"org/{name}")
        for name, (_, text) in words.items():
            message = self.await_condition("Progressing", "ModelFetchFailed", text, name=name)
            print(f"{name}: {message}", flush=True)
            self.assertNotIn("HF_", message, "a user of a cluster sets fields, not variables")
            self.assertEqual(self.all_pods(OF_WORKERS, name), [])
        self.assertEqual([path for path in folder.glob("models--*/snapshots/*/*") if path.name == WEIGHTS], [])
        self.hub.faults.clear()
        (blobs / f"{sha256}.incomplete").unlink()
        self.await_served("limited")

    def test_a_commit_that_the_hub_drops_stops_new_pods_alone(self):
        repo = Repo(demo_files())
        self.offer(repo)
        self.apply_hub()
        self.await_served("demo")
        text = self.answer()
        dropped = repo.revisions["main"]
        repo.commit({**demo_files(), "README.md": b"another"})
        del repo.commits[dropped]
        self.kubectl("patch", "moesvc", "demo", "--type=merge", "-p",
                     json.dumps({"spec": {"roles": {"experts": {"replicas": 3}}}}))
        self.await_condition("ExpertsReady", "ContainerNotStarting", f"org/moe has no commit {dropped} (any more)")
        self.assertEqual(self.condition("Available")[0], "True")
        self.assertEqual(self.answer(), text)

    def test_weights_that_arrive_broken_are_served_by_no_one(self):
        folder = self.make_claim()
        files = demo_files()
        self.offer(Repo(files))
        held = threading.Event()
        self.addCleanup(held.set)
        # Of the right length: only the digest tells. The next attempt is held until the checks are done.
        self.hub.faults[WEIGHTS] = [Fault(body=bytes(len(files[WEIGHTS])))] * 2 + [Fault(after=0, hold=held)]
        self.apply_hub(has_claim=True)
        self.check_failure(WEIGHTS)
        self.assertEqual([path for path in folder.glob("models--org--moe/snapshots/*/*")
                          if path.name == WEIGHTS], [])
        held.set()
        self.await_served("demo")
        self.assertTrue(self.answer())


if __name__ == "__main__":
    unittest.main()
