"""janusctl serve on a machine with GPUs. The worker is a build for tests, whose GPUs are emulated: it computes with the
CUDA kernels' host form. JANUS_SEED repeats a run's random choices."""

import os
import pathlib
import random
import re
import signal
import threading
import unittest

from load import SEED, Load
from serving import BIN, Service, copy_golden, wait_for

VOCABULARY = 256  # at most that of the golden model


def short_requests():
    """Short ones, since an emulated GPU is slow."""
    draw = random.Random(SEED)
    return [{
        "model": "golden",
        "prompt": [draw.randrange(8, VOCABULARY) for _ in range(draw.choice([1, 5, 17]))],
        "max_tokens": draw.choice([8, 40]),
        "temperature": draw.choice([0, 0.8]),
        "seed": i,
        "ignore_eos": True,
        "logits_hash": True,
        "return_token_ids": True,
        "stream": True,
    } for i in range(6)]


class GpuService(Service, unittest.TestCase):
    def setUp(self):
        self.open(copy_golden)
        # janusctl looks for the other programs beside itself.
        programs = self.dir / "bin"
        programs.mkdir()
        for name, built in (("janusctl", "janusctl"), ("janus-gateway", "janus-gateway"),
                            ("janus-worker", "emulated-gpu-worker")):
            os.link(BIN / built, programs / name) if os.stat(BIN).st_dev == os.stat(programs).st_dev else \
                programs.joinpath(name).write_bytes((BIN / built).read_bytes())
            (programs / name).chmod(0o755)
        self.program = programs / "janusctl"

    def tearDown(self):
        self.close()

    def serve(self, *arguments, gpus=1):
        return self.start_serving("--debug-logits-hash", *arguments, program=self.program,
                                  JANUS_EMULATED_GPUS=str(gpus))

    def gpu_processes(self):
        """Of this run, by the name of their socket: pid."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if "gpu-process" in words and any(str(self.run_dir) in word for word in words):
                found[next(word for word in words if "gpu-" in word and "=" in word).rsplit("/", 1)[1]] = int(entry.name)
        return found

    def end(self):
        self.janusctl.send_signal(signal.SIGINT)
        wait_for(lambda: self.janusctl.poll() is not None, "the end")
        self.assertEqual(self.janusctl.returncode, 0, self.janusctl.stderr.read())
        self.assert_nothing_left()
        wait_for(lambda: not self.gpu_processes(), "the end of the GPUs' processes")

    def serves_after(self, pid):
        """Whether attention-1 runs in another process than this one, and serves."""
        wait_for(lambda: self.find_pid("experts-1") not in (None, pid), "another process")
        wait_for(lambda: "True" in str([c for c in self.objects("services")[0]["status"]["conditions"]
                                        if c["type"] == "Ready"]), "the service to be ready")

    def test_a_kill_a_resize_and_the_end_of_the_gpus_process_fail_no_request(self):
        said = self.serve()
        self.assertIn("GPUs: 1 x Emulated GPU", said)
        self.assertIn("2 instances share them", said)
        self.assertIn("memoryPercent: 40", said)
        threading.Thread(target=self.janusctl.stdout.read, daemon=True).start()
        self.assertIn('transport="shared memory, GPU memory"', (self.logs / "attention-1.log").read_text())
        load = Load(self.port, short_requests())
        load.await_answers(12)
        with self.subTest("a worker is killed"):
            pid = self.pid_of("experts-1")
            others = self.gpu_processes()
            os.kill(pid, signal.SIGKILL)
            self.serves_after(pid)
            load.await_answers(12)
            self.assertEqual(self.gpu_processes(), others, "the other instance has lost its process, too")
        with self.subTest("a resize"):
            self.ctl("scale", "--attention", "2", "--experts", "2", "--wait")
            load.await_answers(12)
            self.ctl("scale", "--attention", "1", "--experts", "1", "--wait")
            load.await_answers(12)
            self.assertEqual(self.gpu_processes(), others)
        with self.subTest("the process of the GPU is killed"):
            pid = self.pid_of("experts-1")
            os.kill(others["gpu-0"], signal.SIGKILL)
            self.serves_after(pid)
            load.await_answers(12)
            self.assertEqual(list(self.gpu_processes()), ["gpu-0"])
        load.stop()
        self.assertEqual(load.wrong, [])
        self.end()

    def test_instances_are_dealt_to_the_gpus_evenly(self):
        said = self.serve("--attention", "2", "--experts", "2", gpus=2)
        self.assertIn("GPUs: 2 x Emulated GPU", said)
        self.assertEqual(set(self.gpu_processes()), {"gpu-0", "gpu-1"})
        used = [re.search(r"/(gpu-\d)$", word)[1] for _, words in self.processes() for word in words
                if word.startswith("--gpu-process=")]
        self.assertEqual(sorted(used), ["gpu-0", "gpu-0", "gpu-1", "gpu-1"])
        self.complete("Elizabeth", 4)
        self.end()

    def test_one_instance_each_with_as_many_gpus(self):
        said = self.serve(gpus=2)
        self.assertIn("2 instances have one each", said)
        self.assertNotIn("memoryPercent", said)
        self.end()

    def test_a_target_grows_to_the_gpus_that_there_are(self):
        said = self.serve("--tpot-milliseconds", "1000", gpus=3)
        self.assertIn("maxGPUs: 3", said)
        self.end()

    def test_cpus_compute_where_there_is_no_gpu_or_where_they_are_asked_for(self):
        said = self.serve(gpus=0)
        self.assertNotIn("GPU", said)
        self.stop()
        said = self.serve("--device", "cpu")
        self.assertNotIn("GPU", said)
        self.assertEqual(self.gpu_processes(), {})
        self.stop()

    def test_a_gpu_that_must_be_there_is_missing(self):
        self.assertIn("--device CUDA: janus-worker can use no GPU here: no emulated GPU",
                      self.refused("--device", "CUDA", program=self.program, JANUS_EMULATED_GPUS="0"))

    def test_what_no_gpu_has_room_for_is_refused_at_the_start(self):
        said = self.refused("--attention", "9", "--experts", "9", program=self.program,
                            JANUS_EMULATED_GPUS="1", JANUS_EMULATED_GPU_BYTES=str(300 << 20))
        self.assertIn("of a GPU that holds 18 of its instances", said)

    def test_a_gpu_that_breaks_before_the_start_is_named(self):
        said = self.refused(program=self.program, JANUS_EMULATED_GPU_BROKEN="1")
        self.assertIn("the emulated GPU is broken", said)
        self.assertIn("gpu-0.log", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
