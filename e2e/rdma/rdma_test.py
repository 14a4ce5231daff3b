"""RDMA between two machines, without a network card: python3 e2e/rdma/rdma_test.py [TEST...]

Two guests (guest.py) with a cable between them run Debian's kernel with its soft RoCE device (rdma_rxe). In them run the
exchange's conformance suite over verbs, workers whose rows cross the cable by RDMA, also with loss and delay, and
janusctl serve --transport rdma. JANUS_BIN_DIR has the programs, build/dev/bin by default. `scripts/deps rdma` installs
what it needs.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e" / "support"), str(ROOT / "tests" / "support" / "python"),
                str(pathlib.Path(__file__).resolve().parent)]

from guest import MTU, Guest, base_image, how_to_run  # noqa: E402
from janus_test import scaled  # noqa: E402
from tiers import cannot_run  # noqa: E402

BIN = pathlib.Path(os.environ.get("JANUS_BIN_DIR", ROOT / "build" / "dev" / "bin"))
KERNEL = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus" / "guest-kernel"
PROGRAMS = ("comm_ucx_test", "commit-epoch", "janus-gateway", "janus-worker", "janusctl")
MODEL = ROOT / "examples" / "demo-model"
ADDRESSES = {"a": "10.77.0.1", "b": "10.77.0.2"}
IP, TC = "/usr/sbin/ip", "/usr/sbin/tc"  # busybox prefers its own, which know less
COUNTERS = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
OVER_RDMA = "UCX rc_verbs/rxe0:1"
PROMPTS = ("Elizabeth looked out of the window", "It is a truth universally acknowledged, that", "\"My dear Mr. Bennet,\"")
TOKENS = 16
# Suites that connect members over UCX. The others do not depend on the network, or speak TCP themselves; how members meet
# makes no difference to UCX.
OVER_UCX = "*/Ucx:*/TwoDomains:*/ThreeDomains:LinkName.*:Settle.*"

a = b = folder = None


def setUpModule():
    global a, b, folder
    missing = [name for name in ("qemu-system-x86_64", "busybox", "ucx_info") if shutil.which(name) is None]
    if missing or not (KERNEL / "vmlinuz").exists():
        cannot_run("rdma", f"{', '.join(missing) or 'the kernel of guests'} is missing; scripts/deps rdma installs it")
    programs = [name for name in PROGRAMS if (BIN / name).exists()]
    accelerator, why = how_to_run()
    print(f"guests: {accelerator}{f', because {why}' if why else ''}", file=sys.stderr)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="janus-rdma-"))
    unittest.addModuleCleanup(shutil.rmtree, folder)
    image = base_image(KERNEL)
    for name in programs:
        image.program(BIN / name, f"/opt/janus/{name}")
    for file in MODEL.glob("*"):
        if file.suffix in (".json", ".safetensors"):
            image.write(f"/model/{file.name}", file.read_bytes())
    started = time.monotonic()
    a = start("a", image, serves_link=True)
    b = start("b", image)
    for guest in (a, b):
        guest.await_ready()
        guest.run("rdma link add rxe0 type rxe netdev eth0")
    a.run(f"ping -c 1 -w 10 {ADDRESSES['b']}")
    print(f"guests: ready after {time.monotonic() - started:.0f} s; {a.run('uname -r').strip()}", file=sys.stderr)


def start(name, image, serves_link=False):
    guest = Guest(folder, name, KERNEL, image, f"{IP} link set eth0 mtu {MTU} up\n{IP} addr add {ADDRESSES[name]}/24 dev eth0\n",
                  link=folder / "cable", serves_link=serves_link)
    unittest.addModuleCleanup(guest.stop)
    return guest


def need(*programs):
    """For a test class: fails it if these were not built."""
    if absent := [name for name in programs if not (BIN / name).exists()]:
        raise FileNotFoundError(f"{BIN} lacks {', '.join(absent)}; ninja -C build/dev {' '.join(absent)}")


def packets(guest):
    """(sent, received) by the guest's RDMA device since it was made."""
    return tuple(int(word) for word in guest.run(f"cat {COUNTERS}/sent_pkts {COUNTERS}/rcvd_pkts").split())


class ConformanceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("comm_ucx_test")

    def test_the_exchange_passes_its_suite_over_reliable_connections(self):
        before = packets(a)
        code, said = a.ask(
            "UCX_LOG_LEVEL=error JANUS_TIME_SCALE=20 JANUS_UCX_TRANSPORTS=rc JANUS_UCX_DEVICES=rxe0:1 "
            "JANUS_UCX_LANE=rc_verbs/rxe0:1 /opt/janus/comm_ucx_test --gtest_brief=1 "
            f"--gtest_filter={shlex.quote(OVER_UCX)}", 900)
        self.assertEqual(code, 0, said[-6000:])
        passed = re.search(r"\[  PASSED  \] (\d+) tests?\.", said)
        self.assertIsNotNone(passed, said[-3000:])
        self.assertGreaterEqual(int(passed[1]), 80)
        sent, received = (after - then for after, then in zip(packets(a), before))
        self.assertGreater(min(sent, received), 20 * int(passed[1]), "the device has not carried the messages")


class Service:
    """Two attention and two expert workers at these guests, one epoch, and a gateway in guest a."""

    def __init__(self, transport, experts_at):
        self.workers, self.transport, self.gateway = [], transport, None
        self.uid = f"rdma-{time.monotonic_ns()}"
        for number, (role, guest) in enumerate((("attention", a), ("attention", a), ("experts", experts_at),
                                                ("experts", experts_at))):
            port = 9000 + 10 * number
            host = ADDRESSES[guest.name]
            log = f"/tmp/{self.uid}-{number}.log"
            process = guest.start(f"/opt/janus/janus-worker --role {role} --model /model --listen {host}:{port} "
                                  f"--service-uid {self.uid} --metrics {host}:{port + 2} --drain-seconds 0", log)
            self.workers.append((role, guest, host, port, log, process))

    def commit(self):
        config = json.loads((MODEL / "config.json").read_text())
        members = "".join(f" --{role} {host}:{port}@tcp:{host}:{port + 1},unix:/run/{port}@{guest.name}"
                          for role, guest, host, port, _, _ in self.workers)
        code, said = a.ask(f"/opt/janus/commit-epoch --service-uid {self.uid} --transport {self.transport} "
                           f"--layers {config['num_hidden_layers']} --per-layer {config['num_local_experts']}{members}", 300)
        if code != 0:
            raise AssertionError(said + self.logs())
        return said.splitlines()

    def open_gateway(self):
        _, _, host, port, _, _ = self.workers[0]
        self.gateway = a.start(f"/opt/janus/janus-gateway --listen 127.0.0.1:8000 --model /model --model-name demo "
                               f"--member {host}:{port} --service-uid {self.uid} --debug-logits-hash", f"/tmp/{self.uid}-g.log")
        a.run("until wget -q -O - http://127.0.0.1:8000/health; do sleep 0.2; done", 120)

    def answers(self, seconds=300):
        """[(tokens, hashes of their logits)] of the prompts, which are asked at the same time."""
        lines = []
        for number, prompt in enumerate(PROMPTS):
            body = json.dumps({"model": "demo", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
                               "logits_hash": True, "return_token_ids": True})
            lines.append(f"timeout {int(scaled(seconds))} wget -q -O /tmp/answer-{number} --header 'Content-Type: application/json' "
                         f"--post-data {shlex.quote(body)} http://127.0.0.1:8000/v1/completions || rm -f /tmp/answer-{number} &")
        code, said = a.ask("rm -f /tmp/answer-*\n" + "\n".join(lines) + "\nwait\nfor i in 0 1 2; do cat /tmp/answer-$i; echo; done",
                           seconds + 30)
        got = []
        for line in said.splitlines():
            if line.startswith("{"):
                choice = json.loads(line)["choices"][0]
                got.append((choice["token_ids"], choice["logits_hashes"]))
        if code != 0 or len(got) != len(PROMPTS):
            raise AssertionError(f"{len(got)} of {len(PROMPTS)} requests were answered:\n{said}\n{self.logs()}")
        return got

    def logs(self):
        return "\n".join(f"--- {role} at {guest.name}\n{guest.ask(f'tail -n 15 {log}')[1]}"
                         for role, guest, _, _, log, _ in self.workers)

    def close(self):
        if self.gateway:
            a.ask(f"kill -9 {self.gateway}")
        for _, guest, _, _, _, process in self.workers:
            guest.ask(f"kill -9 {process}; while kill -0 {process}; do sleep 0.1; done")


class ServedTest(unittest.TestCase):
    """Attention in one guest, experts in the other."""

    @classmethod
    def setUpClass(cls):
        need("commit-epoch", "janus-gateway", "janus-worker")
        together = Service("SharedMemory", a)
        try:
            links = together.commit()
            if {line.split(": ")[1] for line in links} != {"shared memory"}:
                raise AssertionError(links)
            together.open_gateway()
            cls.expected = together.answers()
        finally:
            together.close()
        cls.service = Service("Auto", b)
        cls.addClassCleanup(cls.service.close)
        cls.links = cls.service.commit()
        cls.service.open_gateway()

    def test_1_rows_cross_by_rdma_and_answers_have_the_same_bits_as_over_shared_memory(self):
        across = [line for line in self.links if line.split()[0] != line.split()[3]]
        self.assertEqual({line.split(": ")[1] for line in across}, {OVER_RDMA}, self.links)
        self.assertEqual(len(across), 8)
        before = {guest.name: packets(guest) for guest in (a, b)}
        self.assertEqual(self.service.answers(), self.expected)
        config = json.loads((MODEL / "config.json").read_text())
        for guest in (a, b):
            for counted, then in zip(packets(guest), before[guest.name]):
                # A message to each of two peers in each layer of each step.
                self.assertGreater(counted - then, 2 * TOKENS * config["num_hidden_layers"], guest.name)
        for _, guest, host, port, log, _ in self.service.workers:
            self.assertIn("RDMA device of the exchange", guest.run(f"cat {log}"))
            metrics = guest.run(f"wget -q -O - http://{host}:{port + 2}/metrics")
            self.assertRegex(metrics, f'janus_exchange_link_info{{[^}}]*"{OVER_RDMA}"')

    def disturbed(self, how):
        """Asks while the cable does this to packets in both directions. Returns (packets lost, messages sent again)."""
        def repeats():
            return sum(int(guest.run(f"cat {COUNTERS}/completer_retry_err")) for guest in (a, b))

        before = repeats()
        for guest in (a, b):
            guest.run(f"{TC} qdisc add dev eth0 root netem limit 100000 {how}")
        try:
            self.assertEqual(self.service.answers(), self.expected)
            lost = sum(int(re.search(r"dropped (\d+)", guest.run(f"{TC} -s qdisc show dev eth0"))[1]) for guest in (a, b))
        finally:
            for guest in (a, b):
                guest.run(f"{TC} qdisc del dev eth0 root")
        again = repeats() - before
        print(f"netem {how}: {lost} packets lost, {again} RDMA requests repeated", file=sys.stderr)
        return lost, again

    def test_2_answers_are_the_same_with_delay(self):
        self.disturbed("delay 3ms")

    def test_3_answers_are_the_same_when_a_packet_in_a_thousand_is_lost(self):
        self.disturbed("loss 0.1%")

    def test_4_answers_are_the_same_when_a_packet_in_a_hundred_is_lost(self):
        lost, again = self.disturbed("loss 1%")
        self.assertGreater(lost, 0)
        self.assertGreater(again, 0, "no loss has hit RDMA")


class TransportRdmaTest(unittest.TestCase):
    """janusctl serve --transport rdma in one guest. Its two further devices exist only here."""

    SERVE = "/opt/janus/janusctl serve --model /model --name demo --attention 1 --experts 2 --transport rdma --port 8001"

    @classmethod
    def setUpClass(cls):
        need("janus-gateway", "janus-worker", "janusctl")

    def refused(self):
        """What janusctl serve says when it ends. On a busy machine an emulated worker may not answer in time; that proves
        nothing, and it is asked again."""
        for _ in range(3):
            code, said = a.ask(f"timeout 250 {self.SERVE}", 300)
            self.assertEqual(code, 1, said)
            if "failed to connect" not in said:
                break
        return said

    def test_1_without_a_device_it_fails_and_says_what_is_missing(self):
        a.run("rdma link delete rxe0")
        self.addCleanup(a.run, "rdma link add rxe0 type rxe netdev eth0")
        self.assertIn("exchange transport RDMA: this machine has no RDMA device; give this worker a device", self.refused())

    def test_2_a_device_that_is_down_is_named(self):
        a.run(f"{IP} link add veth0 type veth peer name veth1 && rdma link delete rxe0 && rdma link add rxe1 type rxe netdev veth0")
        self.addCleanup(a.run, f"rdma link delete rxe1; {IP} link delete veth0; rdma link add rxe0 type rxe netdev eth0")
        self.assertIn("exchange transport RDMA: rxe1 has no port that is up", self.refused())

    def test_3_it_serves_over_the_fastest_device_that_is_up_and_says_why_not_over_the_others(self):
        a.run(f"{IP} link add veth0 type veth peer name veth1 && {IP} link set veth0 up && {IP} link set veth1 up && "
              f"{IP} addr add 10.78.0.1/24 dev veth0 && rdma link add rxe1 type rxe netdev veth0 && "
              f"{IP} link add veth2 type veth peer name veth3 && rdma link add rxe2 type rxe netdev veth2")
        self.addCleanup(a.run, f"rdma link delete rxe2; rdma link delete rxe1; {IP} link delete veth2; {IP} link delete veth0")
        process = a.start(f"env XDG_STATE_HOME=/tmp/state XDG_RUNTIME_DIR=/run {self.SERVE}", "/tmp/serve.log")
        try:
            a.run(f"until grep -q '^serving ' /tmp/serve.log; do kill -0 {process} || {{ cat /tmp/serve.log; exit 1; }}; "
                  "sleep 0.2; done", 180)
            body = json.dumps({"model": "demo", "prompt": PROMPTS[0], "max_tokens": 4, "temperature": 0})
            answer = a.run("wget -q -O - --header 'Content-Type: application/json' "
                           f"--post-data {shlex.quote(body)} http://127.0.0.1:8001/v1/completions")
            self.assertTrue(json.loads(answer)["choices"][0]["text"])
            logs = a.run("cat $(find /tmp/state -type f -name '*.log')")
        finally:
            a.ask(f"kill {process}; i=0; while kill -0 {process} && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done; kill -9 {process}")
        choices = [line for line in logs.splitlines() if "RDMA device of the exchange" in line]
        self.assertEqual(len(choices), 3, logs[-3000:])
        for line in choices:
            self.assertIn("device=rxe1", line)
            self.assertIn('rate="10 Gbit/s"', line)
            self.assertRegex(line, r'passed_over="rxe0:1 \(.*Ethernet, 2.5 Gbit/s\); rxe2:1 \(.*down')
        self.assertIn("UCX rc_verbs/rxe1:1", logs)


if __name__ == "__main__":
    unittest.main(verbosity=2)
