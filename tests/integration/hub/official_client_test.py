"""The hub for tests behaves as the public one does: the official client works against it. Then its cache and ours are
one: each program finds what the other has downloaded."""

import os
import subprocess

import pytest
from hub_case import NAME, SHARDS, SMALL, WEIGHTS, Machine, Repo, demo_files, names_in, serving, sharded_files
from test_hub import Fault


@pytest.fixture(name="hub")
def demo_hub():
    with serving({NAME: Repo(demo_files()), "org/gated": Repo(demo_files(), gated=True),
                  "org/sharded": Repo(sharded_files())}) as hub:
        yield hub


def test_the_official_client_downloads_from_the_hub_for_tests(hub, tmp_path):
    folder = Machine(tmp_path, hub).official()
    files = demo_files()
    assert names_in(folder) == sorted(files)
    assert all((folder / name).read_bytes() == content for name, content in files.items())
    assert {one.token for one in hub.got if one.server == "store"} == {None}


def test_the_official_client_gets_the_errors_of_a_hub(hub, tmp_path):
    machine = Machine(tmp_path, hub)
    for model, env, name in (("org/none", {}, "RepositoryNotFoundError"), ("org/gated", {}, "GatedRepoError"),
                             ("org/gated", {"HF_TOKEN": "hf_wrong"}, "GatedRepoError")):
        with pytest.raises(AssertionError, match=name):
            machine.official(model, **env)
    assert names_in(machine.official("org/gated", allow="config.json", HF_TOKEN=hub.token)) == ["config.json"]


def test_the_official_client_resumes_a_download_that_the_hub_for_tests_cuts(hub, tmp_path):
    chunk = 10 << 20  # it writes whole chunks of this size
    hub.faults[WEIGHTS] = [Fault(after=chunk + 100_000, cut=True)]
    folder = Machine(tmp_path, hub).official(allow=WEIGHTS)
    assert (folder / WEIGHTS).read_bytes() == demo_files()[WEIGHTS]
    assert hub.starts(WEIGHTS) == [0, chunk]


def layout(cache):
    """Every path of a cache, with what it holds: the target of a link, or the content of a file."""
    out = {}
    for path in sorted(cache.rglob("*")):
        name = path.relative_to(cache).as_posix()
        if path.is_symlink():
            out[name] = os.readlink(path)
        elif path.is_file() and not name.startswith(".locks") and "/trees/" not in name and path.name != "CACHEDIR.TAG":
            out[name] = path.read_bytes()
    return out


@pytest.mark.parametrize("model", [NAME, "org/sharded"])
def test_our_cache_is_that_of_the_official_client_file_by_file(hub, tmp_path, model):
    ours, theirs = Machine(tmp_path / "ours", hub), Machine(tmp_path / "theirs", hub)
    folder = ours.download(model)
    theirs.official(model, allow=names_in(folder))
    assert layout(ours.cache) == layout(theirs.cache)
    wanted = sorted([*SMALL, WEIGHTS] if model == NAME else [*SMALL, *SHARDS, "model.safetensors.index.json"])
    assert names_in(folder) == wanted


def test_the_official_client_finds_our_download_without_the_hub(hub, tmp_path):
    machine = Machine(tmp_path, hub)
    folder = machine.download()
    assert machine.official(local_files_only=True, HF_ENDPOINT="http://127.0.0.1:9") == folder


def test_we_fetch_nothing_after_the_official_client(hub, tmp_path):
    machine = Machine(tmp_path, hub)
    folder = machine.official()
    before = hub.fetched()
    assert machine.download() == folder
    assert hub.fetched() == before
    assert machine.download(HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9") == folder


def test_the_official_client_and_we_download_at_once(hub, tmp_path):
    """Both take the same locks, and the second finds the file."""
    machine = Machine(tmp_path, hub)
    ours = machine.start("models", NAME, "--download")
    folder = machine.official(allow=[*SMALL, WEIGHTS])
    out, error = ours.communicate()
    assert (ours.returncode, error) == (0, ""), out
    assert hub.fetched() == sorted([*SMALL, WEIGHTS])
    assert all((folder / name).read_bytes() == demo_files()[name] for name in [*SMALL, WEIGHTS])


def test_a_file_that_two_locks_guard_is_written_once(hub, tmp_path):
    """flock(1) holds the lock as the official client does; our download waits for it."""
    machine = Machine(tmp_path, hub)
    folder = machine.download()
    weights = (folder / WEIGHTS).resolve()
    lock = machine.cache / ".locks" / "models--org--demo" / (weights.name + ".lock")
    weights.unlink()
    holder = subprocess.Popen(["flock", lock, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    holder.stdin.write("held\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "held\n"
    ours = machine.start("models", NAME, "--download")
    for line in ours.stdout:
        if "another process downloads 1 of them" in line:
            break
    else:
        raise AssertionError(ours.stderr.read())
    assert not weights.exists()
    holder.communicate()
    out, error = ours.communicate()
    assert (ours.returncode, error) == (0, ""), out
    assert weights.read_bytes() == demo_files()[WEIGHTS]
