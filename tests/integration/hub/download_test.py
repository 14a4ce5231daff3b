"""janusctl downloads models: whole files, resumed files, faults of the hub, and what users read about them."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import threading

import pytest
from hub_case import (DEADLINE, DEMO, INDEX, NAME, SHARDS, SMALL, WEIGHTS, Machine, Repo, demo_files, names_in, serving,
                      sharded_files, wait_for)
from test_hub import Fault

CUT = 4_000_000  # bytes of the weights


@pytest.fixture(name="hub")
def demo_hub():
    with serving({NAME: Repo(demo_files()), "org/sharded": Repo(sharded_files())}) as hub:
        yield hub


@pytest.fixture(name="machine")
def demo_machine(hub, tmp_path):
    return Machine(tmp_path, hub)


def is_demo(folder):
    return names_in(folder) == sorted([*SMALL, WEIGHTS]) and all(
        (folder / name).read_bytes() == (DEMO / name).read_bytes() for name in [*SMALL, WEIGHTS])


class Told:
    """The hub's own listing of a model, to be changed."""

    def __init__(self, hub, name=NAME):
        repo = hub.repos[name]
        self.commit = repo.revisions["main"]
        self.files = {file: hub.sibling(file, content, True) for file, content in repo.commits[self.commit].items()}

    def text(self):
        return json.dumps({"sha": self.commit, "siblings": list(self.files.values())}).encode()


# Whole downloads


def test_downloads_what_a_server_reads_and_nothing_else(hub, machine):
    assert is_demo(machine.download())
    assert hub.fetched() == sorted([*SMALL, WEIGHTS])


def test_downloads_the_shards_that_the_index_names(hub, machine):
    folder = machine.download("org/sharded")
    assert names_in(folder) == sorted([*SMALL, *SHARDS, INDEX])
    assert all((folder / name).read_bytes() == sharded_files()[name] for name in SHARDS)
    fetched = [one.what for one in hub.got if one.server == "store" or one.what in (*SMALL, INDEX)]
    assert set(fetched[:5]) == {*SMALL, INDEX}, "small files come first"


def test_fetches_nothing_twice(hub, machine):
    folder = machine.download()
    before = len(hub.fetched())
    assert machine.download() == folder
    assert len(hub.fetched()) == before


def test_asks_the_hub_nothing_about_a_commit_that_it_holds(hub, machine):
    commit = hub.repos[NAME].revisions["main"]
    folder = machine.download(f"{NAME}@{commit}")
    before = len(hub.got)
    assert machine.download(f"{NAME}@{commit}") == folder
    assert len(hub.got) == before


def test_downloads_a_revision_and_keeps_the_other(hub, machine):
    main = machine.download()
    files = demo_files() | {"generation_config.json": b'{"eos_token_id": 3}'}
    hub.repos[NAME].commit(files, "refs/pr/1")
    other = machine.download(f"{NAME}@refs/pr/1")
    assert (other / "generation_config.json").read_bytes() == b'{"eos_token_id": 3}'
    assert is_demo(main)
    assert hub.fetched().count(WEIGHTS) == 1, "the same content is one blob"
    assert (machine.cache / "models--org--demo" / "refs" / "refs" / "pr" / "1").read_text() == other.name


def test_follows_a_branch(hub, machine):
    machine.download()
    commit = hub.repos[NAME].commit(demo_files() | {"generation_config.json": b"{}"})
    assert machine.download().name == commit


def test_uses_the_folders_and_the_token_that_the_environment_names(hub, tmp_path):
    hub.repos["org/private"] = Repo(demo_files(), private=True)
    machine = Machine(tmp_path, hub)
    for env, cache in (({"HF_HUB_CACHE": "~/a"}, "a"), ({"HF_HUB_CACHE": "", "HF_HOME": str(tmp_path / "b")}, "b/hub"),
                       ({"HF_HUB_CACHE": "", "XDG_CACHE_HOME": str(tmp_path / "c")}, "c/huggingface/hub"),
                       ({"HF_HUB_CACHE": ""}, ".cache/huggingface/hub")):
        assert machine.download("org/private", HF_TOKEN=hub.token, **env).is_relative_to(tmp_path / cache)
    (tmp_path / "token").write_text(hub.token + "\n")
    machine.download("org/private", HF_TOKEN_PATH=str(tmp_path / "token"))
    shutil.rmtree(machine.cache)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text(hub.token)
    machine.download("org/private", HF_HOME=str(tmp_path / "home"))
    assert {one.token for one in hub.got if one.server == "store"} == {None}, "only the hub gets the token"


# Interrupted downloads


def test_continues_in_the_middle_of_a_file_that_the_hub_cuts(hub, machine):
    hub.faults[WEIGHTS] = [Fault(after=CUT, cut=True), Fault(after=CUT, cut=True)]
    assert is_demo(machine.download())
    assert hub.starts(WEIGHTS) == [0, CUT, 2 * CUT]


@contextlib.contextmanager
def held_download(hub, machine, after=CUT):
    """A download that has received so many bytes of the weights and waits for more."""
    go_on = threading.Event()
    hub.faults[WEIGHTS] = [Fault(after=after, hold=go_on)]
    sha256 = hashlib.sha256(demo_files()[WEIGHTS]).hexdigest()
    beginning = machine.cache / "models--org--demo" / "blobs" / f"{sha256}.incomplete"
    running = machine.start("models", NAME, "--download")
    try:
        wait_for(lambda: beginning.exists() and beginning.stat().st_size == after, "the first bytes")
        yield running, go_on
    finally:
        go_on.set()
        running.kill()
        running.communicate()


def test_continues_after_it_was_killed(hub, machine):
    with held_download(hub, machine) as (running, _):
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert is_demo(machine.download())
    assert hub.starts(WEIGHTS) == [0, CUT]


def test_ends_on_ctrl_c_and_continues_later(hub, machine):
    with held_download(hub, machine) as (running, _):
        running.send_signal(signal.SIGINT)
        out, error = running.communicate(timeout=DEADLINE)  # though the hub sends nothing
        assert running.returncode == 1, out
        assert error == f"janusctl: stopped; the same command continues the download of {NAME}\n"
    assert is_demo(machine.download())
    assert hub.starts(WEIGHTS) == [0, CUT]


def test_starts_a_file_again_if_the_hub_sends_it_from_its_start(hub, machine):
    hub.faults[WEIGHTS] = [Fault(after=CUT, cut=True), Fault(ignore_range=True)]
    assert is_demo(machine.download())


def test_shows_how_far_it_is(hub, machine):
    with held_download(hub, machine) as (running, go_on):
        for line in running.stdout:
            if re.fullmatch(rf"downloading {NAME}: 2\d % of 16 MB, [\d.]+ .?B/s, file 1 of 1\n", line):
                break
        else:
            raise AssertionError("no line says that a quarter is there")
        go_on.set()
        out, error = running.communicate(timeout=DEADLINE)
        assert (running.returncode, error) == (0, "")
        assert out.splitlines()[-1].startswith(f"model {NAME} at commit ")
        assert ", downloaded 16 MB: " in out


def test_two_processes_share_one_download(hub, machine):
    with held_download(hub, machine) as (first, go_on):
        second = machine.start("models", NAME, "--download")
        for line in second.stdout:
            if "another process downloads 1 of them" in line:
                break
        go_on.set()
        for process in (first, second):
            out, error = process.communicate(timeout=DEADLINE)
            assert (process.returncode, error) == (0, ""), out
            assert is_demo(pathlib.Path(out.splitlines()[-1].rsplit(": ", 1)[1]))
    assert hub.fetched() == sorted([*SMALL, WEIGHTS])


def test_another_process_goes_on_if_the_first_is_killed(hub, machine):
    with held_download(hub, machine) as (first, _):
        second = machine.start("models", NAME, "--download")
        for line in second.stdout:
            if "another process downloads 1 of them" in line:
                break
        first.send_signal(signal.SIGKILL)
        out, error = second.communicate(timeout=DEADLINE)
        assert (second.returncode, error) == (0, ""), out
    assert hub.starts(WEIGHTS) == [0, CUT]


# Broken content


def test_fetches_a_changed_file_once_more_and_then_gives_up(hub, machine):
    changed = bytearray(demo_files()[WEIGHTS])
    changed[CUT] ^= 1
    hub.faults[WEIGHTS] = [Fault(body=bytes(changed))]
    assert is_demo(machine.download())
    assert hub.starts(WEIGHTS) == [0, 0]
    shutil.rmtree(machine.cache)
    hub.faults[WEIGHTS] = [Fault(body=bytes(changed))] * 2
    error = machine.refused()
    assert f"{WEIGHTS}: its content has another digest than the hub lists, twice" in error
    assert machine.blobs(".incomplete") == []
    assert all(blob.stat().st_size < CUT for blob in machine.blobs())


def test_checks_the_digest_of_files_in_git_too(hub, machine):
    hub.faults["tokenizer.json"] = [Fault(body=demo_files()["tokenizer.json"].replace(b"a", b"b", 1))] * 2
    assert "tokenizer.json: its content has another digest" in machine.refused()


def test_a_broken_beginning_is_fetched_again(hub, machine):
    with held_download(hub, machine) as (running, _):
        running.send_signal(signal.SIGKILL)
        running.wait()
    [partial] = machine.blobs(".incomplete")
    with open(partial, "r+b") as file:
        file.write(b"broken")
    assert is_demo(machine.download())
    assert hub.starts(WEIGHTS) == [0, CUT, 0]


def test_more_bytes_than_listed_are_refused(hub, machine):
    hub.faults[WEIGHTS] = [Fault(body=demo_files()[WEIGHTS] + b"more")] * 2
    assert "the hub sends more than the 15764728 bytes that it lists, twice" in machine.refused()


def test_a_truncated_blob_is_replaced(hub, machine):
    folder = machine.download()
    os.truncate((folder / WEIGHTS).resolve(), 100)
    assert is_demo(machine.download())


# Errors, each with what to do


def test_says_how_to_reach_a_gated_model(hub, machine):
    hub.repos["org/gated"] = Repo(demo_files(), gated=True)
    licence = f"org/gated is gated: accept its licence at {hub.endpoint}/org/gated, and "
    assert licence + "set HF_TOKEN to an access token of that account" in machine.refused("org/gated")
    assert licence + "use an access token" in machine.refused("org/gated", HF_TOKEN="hf_wrong")
    assert is_demo(machine.download("org/gated", HF_TOKEN=hub.token))


def test_says_that_a_model_or_revision_does_not_exist(hub, machine):
    assert "org/none: the hub has no such model, or it is private; check the name, or set HF_TOKEN" in machine.refused("org/none")
    assert "org/none: the hub has no such model; check the name" in machine.refused("org/none", HF_TOKEN=hub.token)
    assert f"{NAME} has no revision 'v9'; give a branch, a tag or a commit" in machine.refused(f"{NAME}@v9")


@pytest.mark.parametrize(("status", "text"), [
    (401, "the hub refuses access (status 401); set HF_TOKEN"),
    (429, "the hub gets too many requests from here (status 429); wait 0 s, as it asks, or set HF_TOKEN"),
    (500, "answers with status 500; the hub has a fault, try again later"),
    (418, "answers with status 418; is HF_ENDPOINT the address of a Hugging Face hub?"),
])
def test_says_what_a_status_means(hub, machine, status, text):
    hub.faults["listing"] = [Fault(status=status, headers={"Retry-After": "0"})] * 100
    assert text in machine.refused()
    asked = 1 if status in (401, 418) else 10
    assert len([one for one in hub.got if one.what == "listing"]) == asked


def test_tries_again_after_faults_that_pass(hub, machine):
    passing = [Fault(status=status, headers={"Retry-After": "0"}) for status in (429, 503)]
    hub.faults = {"listing": list(passing), "config.json": list(passing), WEIGHTS: list(passing)}
    assert is_demo(machine.download())


def test_says_that_a_file_always_ends_early(hub, machine):
    hub.faults["config.json"] = [Fault(after=10, cut=True)] + [Fault(after=0, cut=True)] * 20
    assert "the connection to the hub breaks off, try again later" in machine.refused(HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert hub.starts("config.json")[1] == 10


def test_gives_up_a_hub_that_stays_silent(hub, machine):
    never = threading.Event()
    hub.faults["config.json"] = [Fault(after=10, hold=never)] + [Fault(after=0, hold=never)] * 20
    assert "the connection to the hub breaks off, try again later" in machine.refused(HF_HUB_DOWNLOAD_TIMEOUT="1")
    never.set()


def test_says_that_redirects_have_no_end(hub, machine):
    loop = Fault(status=302, headers={"Location": f"/{NAME}/resolve/main/config.json"})
    hub.faults["config.json"] = [loop] * 100
    hub.faults["listing"] = [Fault(status=302, headers={"Location": f"/api/models/{NAME}/revision/main"})] * 100
    assert "redirects without end" in machine.refused()
    assert len([one for one in hub.got if one.what == "listing"]) == 6


def test_says_that_there_is_no_network(machine):
    error = machine.refused(HF_ENDPOINT="http://127.0.0.1:9")
    assert "check the network and HF_ENDPOINT, or set HF_HUB_OFFLINE=1" in error
    assert "hub.invalid: no such host; check the network" in machine.refused(HF_ENDPOINT="http://hub.invalid")


def test_uses_the_cache_if_the_hub_is_not_reached(machine):
    folder = machine.download()
    status, out, _ = machine.run("models", NAME, "--download", HF_ENDPOINT="http://127.0.0.1:9")
    assert status == 0
    assert "the hub was not reached: 127.0.0.1" in out
    assert str(folder) in out


def test_says_what_the_cache_lacks_without_the_hub(hub, machine):
    assert "lacks config.json, and HF_HUB_OFFLINE is set; unset it" in machine.refused(HF_HUB_OFFLINE="1")
    folder = machine.download("org/sharded")
    for name in SHARDS[1:]:
        (folder / name).unlink()
    error = machine.refused("org/sharded", HF_HUB_OFFLINE="1")
    assert f"lacks {SHARDS[1]}, {SHARDS[2]}, {SHARDS[3]} and 1 more" in error


def test_says_that_the_disk_is_too_small_before_it_fetches_weights(hub, machine):
    listing = Told(hub)
    listing.files[WEIGHTS]["lfs"]["size"] = 1 << 45
    hub.faults["listing"] = [Fault(body=listing.text())]
    error = machine.refused()
    assert f"{NAME} needs 35184.4 GB more in {machine.cache}, which has" in error
    assert "free some space, or set HF_HUB_CACHE to a larger disk" in error
    assert WEIGHTS not in hub.fetched()


def test_says_that_the_disk_is_full(hub, machine):
    machine.download()
    weights = next(blob for blob in machine.blobs() if blob.stat().st_size > CUT)
    weights.unlink()
    os.symlink("/dev/full", f"{weights}.incomplete")
    assert "the disk is full (No space left on device); free some space and start again" in machine.refused()


def test_says_that_the_cache_cannot_be_written(machine):
    machine.cache.write_text("a file")
    assert "; set HF_HUB_CACHE to a folder that can be written" in machine.refused()


def test_refuses_a_model_without_safetensors(hub, machine):
    files = demo_files()
    del files[WEIGHTS]
    hub.repos["org/pickled"] = Repo(files)
    assert "org/pickled: has only *.bin; only safetensors are served" in machine.refused("org/pickled")
    assert hub.fetched() == []


def test_refuses_a_family_before_it_fetches_weights(hub, machine):
    hub.repos["org/llama"] = Repo(demo_files() | {"config.json": b'{"architectures": ["LlamaForCausalLM"]}'})
    assert "'LlamaForCausalLM' is not supported" in machine.refused("org/llama")
    assert WEIGHTS not in hub.fetched()


def test_refuses_names_of_the_wrong_form(machine):
    for name in ("demo", "a/b/c", "../demo", "org/..", "org/a--b", "org/demo@", "org/demo@../main", "org/.demo"):
        status, _, error = machine.run("models", name)
        assert status == 2, name
        assert "is no name of a model on a hub" in error or "is no revision" in error


# A hub that lies


def test_writes_no_file_outside_the_cache(hub, machine):
    files = sharded_files()
    files[INDEX] = files[INDEX].replace(SHARDS[0].encode(), b"../../../../outside.safetensors")
    hub.repos["org/liar"] = Repo(files)
    assert "names a file of weights that is no plain name" in machine.refused("org/liar")
    assert not list(machine.folder.rglob("outside*"))


@pytest.mark.parametrize("change", [
    lambda listing: setattr(listing, "commit", "../../outside"),
    lambda listing: listing.files["config.json"].update(blobId="../../outside"),
    lambda listing: listing.files[WEIGHTS]["lfs"].update(sha256="../../outside"),
    lambda listing: listing.files[WEIGHTS]["lfs"].update(size=-1),
    lambda listing: listing.files.update(twin=listing.files["config.json"]),
])
def test_refuses_a_listing_that_is_none(hub, machine, change):
    listing = Told(hub)
    change(listing)
    hub.faults["listing"] = [Fault(body=listing.text())]
    assert "the reply is no listing of a model" in machine.refused()
    assert hub.fetched() == []


def test_the_store_of_another_host_never_gets_the_token(hub, machine):
    machine.download(HF_TOKEN=hub.token)
    assert {one.token for one in hub.got if one.server == "hub"} == {f"Bearer {hub.token}"}
    assert {one.token for one in hub.got if one.server == "store"} == {None}


# Certificates


@pytest.fixture(name="certificate", scope="module")
def self_signed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "3650",
                    "-keyout", folder / "key", "-out", folder / "certificate"], check=True, capture_output=True)
    return folder


def test_trusts_only_certificates_of_known_authorities(certificate, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    with serving({NAME: Repo(demo_files())}, tls=context) as hub:
        machine = Machine(tmp_path, hub)
        assert "certificate: self-signed certificate; install the certificate of its authority" in machine.refused()
        assert hub.got == []
        # Its store is not encrypted, and a redirect must not lead there.
        trusted = {"SSL_CERT_FILE": str(certificate / "certificate")}
        assert "which is not encrypted" in machine.refused(**trusted)
        assert set(hub.fetched()) == set(SMALL)
        wrong_name = hub.endpoint.replace("127.0.0.1", "localhost")
        assert "certificate: hostname mismatch" in machine.refused(HF_ENDPOINT=wrong_name, **trusted).lower()
