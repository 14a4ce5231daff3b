"""What the container of a Job tells about each fault of a hub: `janus-worker fetch`, as the operator starts it."""

import json
import os
import subprocess
import threading

import pytest
from hub_case import BIN, DEADLINE, NAME, WEIGHTS, Repo, demo_files, serving, wait_for
from test_hub import Fault


@pytest.fixture(name="hub")
def demo_hub():
    with serving({NAME: Repo(demo_files())}) as hub:
        yield hub


class Job:
    """A container with an empty cache and the file that becomes its termination message."""

    def __init__(self, folder, hub):
        self.cache = folder / "model"
        self.cache.mkdir()
        self.report = folder / "report"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and name != "HOME"}
        self.env = kept | {"HF_ENDPOINT": hub.endpoint, "HF_HUB_DOWNLOAD_TIMEOUT": "2"}

    def start(self, reader="all", revision="main"):
        return subprocess.Popen([BIN / "janus-worker", "fetch", f"--repo={NAME}", f"--revision={revision}", f"--for={reader}",
                                 f"--into={self.cache}", f"--report={self.report}"], env=self.env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, **options):
        running = self.start(**options)
        running.communicate(timeout=DEADLINE)
        return running.returncode, self.report.read_text()

    def served(self):
        """The files that a worker would find."""
        return sorted(path.name for path in self.cache.glob("models--*/snapshots/*/*"))


LISTED = {"Retry-After": "0"}


@pytest.mark.parametrize(("what", "fault", "words"), [
    ("listing", Fault(status=401), "the hub refuses access (status 401); set spec.model.source.huggingFace.tokenSecretRef"),
    ("listing", Fault(status=429, headers={"Retry-After": "3600"}), "(status 429); wait 3600 s, as it asks"),
    ("listing", Fault(status=500, headers=LISTED), "answers with status 500; the hub has a fault, try again later"),
    (WEIGHTS, Fault(status=503, headers=LISTED), "answers with status 503; the hub has a fault, try again later"),
    (WEIGHTS, Fault(status=404), f"{NAME}: the hub lists {WEIGHTS} but does not have it"),
    (WEIGHTS, Fault(after=0, cut=True), "the connection to the hub breaks off, try again later"),
    (WEIGHTS, Fault(body=bytes(len(demo_files()[WEIGHTS]))), f"{WEIGHTS}: its content has another digest than the hub lists"),
    ("listing", Fault(status=302, headers={"Location": f"/api/models/{NAME}/revision/main"}),
     "redirects without end, the last one to 127.0.0.1; is hub.endpoint of the chart the address of a Hugging Face hub?"),
])
def test_reports_one_sentence_and_leaves_nothing_half_served(hub, tmp_path, what, fault, words):
    hub.faults[what] = [fault] * 100
    job = Job(tmp_path, hub)
    status, report = job.run()
    assert status == 1
    assert words in report
    assert "\n" not in report and "HF_" not in report
    assert WEIGHTS not in job.served()
    # The kubelet starts the container again.
    hub.faults.clear()
    status, report = job.run()
    assert (status, json.loads(report)["commit"]) == (0, hub.repos[NAME].revisions["main"])
    assert WEIGHTS in job.served()


def test_reports_that_the_disk_is_full(hub, tmp_path):
    job = Job(tmp_path, hub)
    assert job.run()[0] == 0
    weights = next(blob for blob in job.cache.glob("models--*/blobs/*") if blob.stat().st_size > 1_000_000)
    next(job.cache.glob(f"models--*/snapshots/*/{WEIGHTS}")).unlink()
    weights.unlink()
    os.symlink("/dev/full", f"{weights}.incomplete")
    status, report = job.run()
    assert status == 1
    assert "the disk is full (No space left on device); free some space and start again" in report
    assert WEIGHTS not in job.served()


def test_a_branch_that_moves_meanwhile_is_fetched_as_it_was(hub, tmp_path):
    repo = hub.repos[NAME]
    first = repo.revisions["main"]
    go_on = threading.Event()
    hub.faults[WEIGHTS] = [Fault(after=1000, hold=go_on)]
    job = Job(tmp_path, hub)
    running = job.start()
    try:
        wait_for(lambda: hub.starts(WEIGHTS), "the weights")
        repo.commit(demo_files() | {"generation_config.json": b"{}", WEIGHTS: b"others"})
    finally:
        go_on.set()
        running.communicate(timeout=DEADLINE)
    assert (running.returncode, json.loads(job.report.read_text())["commit"]) == (0, first)
    [folder] = job.cache.glob("models--*/snapshots/*")
    assert folder.name == first
    assert (folder / WEIGHTS).read_bytes() == demo_files()[WEIGHTS]
    assert (folder / "generation_config.json").read_bytes() == demo_files()["generation_config.json"]


def test_reports_that_the_hub_has_dropped_the_commit(hub, tmp_path):
    repo = hub.repos[NAME]
    dropped = repo.revisions["main"]
    repo.commit(demo_files() | {"generation_config.json": b"{}"})
    del repo.commits[dropped]
    status, report = Job(tmp_path, hub).run(revision=dropped)
    assert status == 1
    assert f"{NAME} has no commit {dropped} (any more); give a branch, a tag or another commit" in report
