"""janusctl serves models straight from a hub, and lists those of its cache."""

import json
import socket
import urllib.request

import pytest
from hub_case import DEADLINE, NAME, SHARDS, WEIGHTS, Machine, Repo, demo_files, serving, sharded_files

PROMPT = "Elizabeth looked out"
ONE_EACH = {"attention": {"replicas": 1}, "experts": {"replicas": 1}}


@pytest.fixture(name="hub")
def demo_hub():
    with serving({NAME: Repo(demo_files())}) as hub:
        yield hub


def ask(port, model):
    body = {"model": model, "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
        return json.load(reply)["choices"][0]["text"]


def serve(machine, *arguments):
    """A service that serves, and its port."""
    running = machine.start("serve", "--port", "0", *arguments)
    seen = ""
    for line in running.stdout:
        seen += line
        if line.startswith("serving "):
            return running, int(line.rsplit(":", 1)[1].split("/")[0]), seen
    raise AssertionError(seen + running.stderr.read())


def stop(running):
    running.terminate()
    _, error = running.communicate(timeout=DEADLINE)
    assert (running.returncode, error) == (0, "")


def test_serves_a_model_by_its_name_on_the_hub(hub, tmp_path):
    machine = Machine(tmp_path, hub)
    running, port, seen = serve(machine, "--model", NAME)
    assert f"model {NAME} at commit " in seen
    assert f"serving {NAME} at " in seen
    answer = ask(port, NAME)
    status, table, _ = machine.run("models")
    assert status == 0
    commit = hub.repos[NAME].revisions["main"]
    row = next(line for line in table.splitlines() if line.startswith(NAME)).split("   ")
    assert [cell.strip() for cell in row if cell.strip()] == [
        NAME, f"main {commit[:12]}", "16 MB", "complete", "mixtral", "demo"]
    stop(running)

    # An object names it too, and nothing is fetched again.
    before = hub.fetched()
    path = tmp_path / "service.yaml"
    source = {"type": "HuggingFace", "huggingFace": {"repo": NAME, "revision": commit}}
    path.write_text(json.dumps({"apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "two"},
                                "spec": {"model": {"source": source, "name": "other"}, "roles": ONE_EACH}}))
    running, port, _ = serve(machine, "-f", str(path))
    assert ask(port, "other") == answer
    status, objects, _ = machine.run("get", "services", "-o", "json")
    assert str(machine.cache / "models--org--demo" / "snapshots" / commit) in objects
    stop(running)
    assert hub.fetched() == before


def test_a_folder_of_the_same_name_goes_first(hub, tmp_path, monkeypatch):
    machine = Machine(tmp_path, hub)
    (tmp_path / "org" / "demo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    status, _, error = machine.run("serve", "--port", "0", "--model", NAME)
    assert status == 1
    assert f"{tmp_path}/{NAME}/config.json: no such file" in error
    assert hub.got == []


def test_says_that_neither_a_folder_nor_a_model_has_the_name(hub, tmp_path, monkeypatch):
    machine = Machine(tmp_path, hub)
    _, _, error = machine.run("serve", "--model", "org/none")
    assert "org/none is no folder here, and on the hub: org/none: the hub has no such model" in error
    (tmp_path / "org" / "demo-folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    _, _, error = machine.run("serve", "--model", "org/demo-foldr")
    assert f"org/demo-foldr is no folder here ({tmp_path}/org has: demo-folder), and on the hub: " in error


def test_refuses_a_service_before_it_fetches_weights(hub, tmp_path):
    machine = Machine(tmp_path, hub)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _, _, error = machine.run("serve", "--model", NAME, "--port", str(taken.getsockname()[1]))
        assert "use" in error
    files = demo_files()
    del files["tokenizer.json"]
    hub.repos["org/mute"] = Repo(files)
    _, _, error = machine.run("serve", "--port", "0", "--model", "org/mute")
    assert "tokenizer.json: no such file" in error
    assert WEIGHTS not in hub.fetched()


def test_a_secret_cannot_hold_the_token_on_one_machine(hub, tmp_path):
    path = tmp_path / "service.yaml"
    source = {"type": "HuggingFace", "huggingFace": {"repo": NAME, "tokenSecretRef": {"name": "a", "key": "b"}}}
    path.write_text(json.dumps({"apiVersion": "serving.janus.dev/v1alpha1", "kind": "MoEService", "metadata": {"name": "two"},
                                "spec": {"model": {"source": source}, "roles": ONE_EACH}}))
    _, _, error = Machine(tmp_path, hub).run("serve", "-f", str(path))
    assert "spec.model.source.huggingFace.tokenSecretRef: this is not supported" in error
    assert "set HF_TOKEN" in error


def test_lists_what_the_cache_lacks_and_what_is_not_served(hub, tmp_path):
    machine = Machine(tmp_path, hub)
    status, out, _ = machine.run("models")
    assert (status, out.startswith(f"no models in {machine.cache}; ")) == (0, True)
    hub.repos["org/sharded"] = Repo(sharded_files())
    folder = machine.download("org/sharded")
    for name in SHARDS[2:]:
        (folder / name).unlink()
    (folder / "config.json").unlink()
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    _, out, _ = machine.run("models")
    assert f"lacks {SHARDS[2]}, {SHARDS[3]} and 1 more" in out
    assert "not served: " in out and "'LlamaForCausalLM' is not supported" in out
    assert out.splitlines()[-1] == f"cache: {machine.cache}"


def test_says_what_a_model_would_need_and_fetches_only_small_files(hub, tmp_path):
    status, out, error = Machine(tmp_path, hub).run("models", NAME)
    assert (status, error) == (0, "")
    assert "weights:    16 MB, to download 16 MB\n" in out
    lines = dict(line.split(":", 1) for line in out.splitlines() if line.count(":") == 1)
    assert {"family", "attention", "experts", "here"} <= lines.keys()
    assert lines["family"].strip() == "mixtral (MixtralForCausalLM)"
    assert WEIGHTS not in hub.fetched()
