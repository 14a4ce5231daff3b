"""janusctl serve and load against real workers and a real gateway, from outside.

Every test checks at its end that nothing is left: no process of the run, no folder with its sockets.
"""

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import unittest
import urllib.error
import urllib.request

from serving import BIN, DEADLINE, DEMO, Service, free_port, free_ports, wait_for

SANITIZED = not (BIN / "failing-calls.so").exists()  # which is built without sanitizers only


class ServeTest(Service, unittest.TestCase):
    def setUp(self):
        self.open()

    def tearDown(self):
        self.close()


class Serving(ServeTest):
    def test_answers_alike_whatever_the_split_and_ends_clean_on_ctrl_c(self):
        prompts = [[5, 6, 7], list(range(10, 40)), [300]]
        answers = []
        for counts in (("1", "1"), ("2", "3")):
            out = self.start_serving("--attention", counts[0], "--experts", counts[1])
            self.assertIn(f"# {self.logs}/service.yaml\n", out)
            self.assertIn("kind: MoEService", out)
            self.assertIn(f"serving golden at http://127.0.0.1:{self.port}/v1", out)
            self.assertEqual(len(self.processes()), int(counts[0]) + int(counts[1]) + 1)
            answers.append([self.complete(prompt) for prompt in prompts])
            self.janusctl.send_signal(signal.SIGINT)
            _, error = self.ends()
            self.assertEqual((self.janusctl.returncode, error), (0, ""))
            self.assert_nothing_left()
            for log in self.logs.glob("*.log"):
                self.assertNotIn("error", log.read_text().lower(), "stopped, not lost")
        self.assertEqual(answers[0], answers[1])

    def test_serves_the_object_of_a_file(self):
        service = self.dir / "service.yaml"
        service.write_text(
            f"""apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {{name: golden}}
spec:
  model: {{source: {{type: HostPath, hostPath: {{path: {self.model}}}}}, dtype: BFloat16}}
  device: CPU
  roles:
    attention: {{replicas: 1, maxBatchSize: 4, kvCache: {{size: 8Mi}}}}
    experts: {{replicas: 2, slotsPerInstance: 12, scheduling: AEBSGreedy}}
  pipeline: {{microBatches: 1}}
"""
        )
        self.start("-f", str(service), model=False)
        for line in self.janusctl.stdout:
            if line.startswith("serving "):
                break
        self.assertNotEqual(self.complete([1, 2, 3]), "")
        self.janusctl.send_signal(signal.SIGTERM)
        self.ends()
        self.assertEqual(self.janusctl.returncode, 0)
        self.assert_nothing_left()

    def test_answers_alike_over_tcp_and_says_what_every_pair_uses(self):
        prompts = [[5, 6, 7], list(range(10, 40))]
        answers = []
        for transport, used in (("SharedMemory", "shared memory"), ("TCP", "UCX tcp/lo")):
            service = self.dir / "service.yaml"
            service.write_text(
                f"""apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {{name: golden}}
spec:
  model: {{source: {{type: HostPath, hostPath: {{path: {self.model}}}}}}}
  exchange: {{transport: {transport}}}
  roles:
    attention: {{replicas: 2}}
    experts: {{replicas: 2}}
"""
            )
            self.start("-f", str(service), model=False)
            wait_for(lambda: self.janusctl.stdout.readline().startswith("serving "), "the service")
            answers.append([self.complete(prompt) for prompt in prompts])
            for worker, peers in (
                ("attention-1", "attention 1, experts 0, experts 1"),
                ("experts-2", "attention 0, attention 1"),
            ):
                log = (self.logs / f"{worker}.log").read_text()
                self.assertIn(f'transport="{used}" peers="{peers}"', log)
            self.janusctl.send_signal(signal.SIGINT)
            _, error = self.ends()
            self.assertEqual((self.janusctl.returncode, error), (0, ""))
            self.assert_nothing_left()
        self.assertEqual(answers[0], answers[1])

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory comes on top")
    def test_takes_about_the_memory_that_it_said(self):
        self.model = DEMO
        service = self.dir / "service.yaml"
        for dtype in ("BFloat16", "Float32"):  # used where it lies, and converted by each
            service.write_text(
                f"""apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {{name: golden}}
spec:
  model: {{source: {{type: HostPath, hostPath: {{path: {self.model}}}}}, dtype: {dtype}}}
  roles:
    attention: {{replicas: 2, maxBatchSize: 8, kvCache: {{size: 16Mi}}}}
    experts: {{replicas: 2}}
  gateway: {{limits: {{openStreams: 16}}}}
"""
            )
            self.start("-f", str(service), "--memory-bytes", str(16 << 20), model=False)
            said = None
            for line in self.janusctl.stdout:
                if " needs " in line:
                    said = line.rsplit(" needs ", 1)[1].split()
                if line.startswith("serving "):
                    break
            unit = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
            predicted = float(said[0]) * unit[said[1]]
            self.complete(list(range(10, 310)))
            # Pages that several processes share count once.
            observed = 0
            for pid, _ in self.processes():
                rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                pss = next(row for row in rollup.splitlines() if row.startswith("Pss:"))
                observed += int(pss.split()[1]) * 1024
            print(f"memory, {dtype}: said {predicted / 1e6:.0f} MB, is {observed / 1e6:.0f} MB")
            self.assertLessEqual(observed, predicted)
            # Pages for keys and values are hardly touched here, nor is the workspace of long steps.
            untouched = 2 * (16 << 20) * 9 / 8 + (16 << 20)  # nor the memory for clients
            self.assertLessEqual(predicted - untouched, 3 * observed)
            self.janusctl.send_signal(signal.SIGINT)
            self.ends()
            self.assert_nothing_left()

    def test_a_worker_that_stands_still_past_the_detection_deadline_costs_time_and_no_token(self):
        self.start_serving("--attention", "2", "--experts", "2")
        undisturbed = self.complete([5, 6, 7])
        stopped = self.pid_of("experts-2")
        os.kill(stopped, signal.SIGSTOP)
        answers = []
        asks = threading.Thread(target=lambda: answers.append(self.complete([5, 6, 7])))
        asks.start()
        log = self.logs / "attention-1.log"
        wait_for(lambda: 'message="step given up"' in log.read_text(), "a step that is given up")
        os.kill(stopped, signal.SIGCONT)
        asks.join()
        self.assertEqual(answers, [undisturbed])
        self.assertRegex(log.read_text(), r"experts 1\b")
        self.stop()

    def test_keys_of_a_file_are_asked_for(self):
        keys = self.dir / "keys"
        keys.write_text("# ours\nsecret\n")
        self.start_serving("--api-keys-file", str(keys))
        url = f"http://127.0.0.1:{self.port}/v1/models"
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=DEADLINE)
        self.assertEqual(refused.exception.code, 401)
        refused.exception.close()
        request = urllib.request.Request(url, headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
            self.assertEqual(json.load(reply)["data"][0]["id"], "golden")

    def test_the_gateways_limits_are_its_own_flags(self):
        given = {"--memory-bytes": "67108864", "--stream-buffer-bytes": "65536",
                 "--read-seconds": "7", "--first-token-seconds": "8", "--stall-seconds": "9",
                 "--idle-seconds": "95", "--comment-seconds": "3", "--model-alias": "org/golden",
                 "--cors-origin": "https://ui.example", "--unknown-parameters": "ignore",
                 "--tool-parser": "hermes", "--reasoning-parser": "none"}
        self.start_serving(*(part for flag in given.items() for part in flag))
        gateway = pathlib.Path(f"/proc/{self.pid_of('gateway')}/cmdline").read_bytes().decode()
        for flag, value in given.items():
            self.assertEqual(gateway.split("\0").count(f"{flag}={value}"), 1, flag)
        self.assertEqual(self.metric("janus_gateway_memory_limit_bytes"), 67108864)
        self.stop()
        self.assertIn(
            "--memory-bytes: is 5242880; requests may take three quarters of it",
            self.refused("--memory-bytes", str(5 << 20)))

    def test_workers_serve_their_metrics_at_the_ports_from_the_given_one_attention_first(self):
        first = free_ports(4)
        self.start_serving(
            "--attention", "2", "--experts", "2", "--worker-metrics-port", str(first))
        self.complete([5, 6, 7], tokens=8)
        workers = (("attention", 0), ("attention", 1), ("experts", 0), ("experts", 1))
        for port, (role, rank) in enumerate(workers, first):
            url = f"http://127.0.0.1:{port}"
            name = f"{role}-{rank + 1}"
            with urllib.request.urlopen(url + "/metrics", timeout=DEADLINE) as reply:
                page = reply.read().decode()
            self.assertIn(f'\njanus_topology_epoch{{role="{role}",rank="{rank}"}} 1\n', page)
            self.assertIn(f' metrics=127.0.0.1:{port}\n', (self.logs / f"{name}.log").read_text())
            if role == "experts":
                # Eight steps of four layers.
                wait_for(lambda u=url: self.metric("janus_rounds_total", u) >= 32, name)
        generated = [self.metric("janus_generated_tokens_total", f"http://127.0.0.1:{port}")
                     for port in (first, first + 1)]
        self.assertEqual(sorted(generated), [0, 8])
        self.stop()

    def test_workers_serve_their_metrics_at_sockets_that_their_logs_name(self):
        self.start_serving("--experts", "2")
        for name in ("attention-1", "experts-1", "experts-2"):
            log = (self.logs / f"{name}.log").read_text()
            path = re.search(r' metrics="?unix:([^\s"]+)', log).group(1)
            with socket.socket(socket.AF_UNIX) as scrape:
                scrape.settimeout(DEADLINE)
                scrape.connect(path)
                scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: worker\r\n\r\n")
                page = b"".join(iter(lambda s=scrape: s.recv(65536), b""))
            role, rank = name.split("-")
            self.assertIn(f'\njanus_topology_epoch{{role="{role}",rank="{int(rank) - 1}"}} 1\n', page.decode())
        self.stop()

    def test_load_measures_every_request_of_a_trace(self):
        self.start_serving("--experts", "2")
        trace = self.dir / "trace.csv"
        rows = [f"{0.01 * i},{10 + i},{5}" for i in range(20)]
        trace.write_text("arrival_s,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
        load = subprocess.run(
            [BIN / "janusctl", "load", "--url", f"http://127.0.0.1:{self.port}", "--ignore-eos",
             "--trace", trace],
            capture_output=True, text=True, timeout=DEADLINE,
        )
        self.assertEqual(load.returncode, 0, load.stderr)
        outcomes = [json.loads(line) for line in load.stdout.splitlines()]
        self.assertEqual(sorted(o["index"] for o in outcomes), list(range(20)))
        for outcome in outcomes:
            self.assertEqual(outcome["error"], "")
            self.assertEqual(outcome["output_tokens"], 5)
            self.assertGreater(outcome["ttft_seconds"], 0)
        self.assertIn("20 sent, 20 completed, 0 failed, 0 skipped", load.stderr)
        for name in ("TTFT", "ITL", "TPOT"):
            self.assertRegex(load.stderr, rf"{name} +p50 .* p90 .* p99 ")


class Healing(ServeTest):
    def killed(self, name, signal_number=signal.SIGKILL):
        """Kills a process of the service; returns its successor's pid."""
        old = self.pid_of(name)
        os.kill(old, signal_number)
        return wait_for(lambda: self.find_pid(name) not in (None, old) and self.find_pid(name), name)

    def test_a_service_heals_from_the_loss_of_each_process_and_says_so(self):
        self.start_serving("--attention", "2", "--experts", "2")
        undisturbed = [self.complete(prompt) for prompt in ([5, 6, 7], [300])]
        for name in ("experts-1", "attention-1", "gateway", "attention-2", "experts-2"):
            with self.subTest(name):
                self.killed(name)
                self.wait_for_line(f"{name} runs")
                answers = [self.complete_when_it_listens(p) for p in ([5, 6, 7], [300])]
                self.assertEqual(answers, undisturbed)
        out = self.stop()
        self.assertNotIn("is started again", out, "only what is killed is")

    def test_weights_that_change_in_use_are_named_and_their_workers_leave(self):
        weights = self.model / "model.safetensors"
        whole = weights.read_bytes()

        def overwrite():
            """Other finite numbers of the same size: the last tensor becomes zero."""
            with open(weights, "r+b") as file:
                file.seek(-64, os.SEEK_END)
                file.write(bytes(64))

        def truncate():
            os.truncate(weights, len(whole) // 2)

        for change, words in ((overwrite, "has changed while its weights are in use"),
                              (truncate, r"has changed while its weights are in use|cannot be read any more while")):
            with self.subTest(change.__name__):
                weights.write_bytes(whole)
                self.start_serving("--experts", "1")
                self.complete([5, 6, 7])
                change()
                left = {"attention-1", "experts-1"}
                for line in self.janusctl.stdout:
                    ended = re.match(f"(attention-1|experts-1) exited with status 1.*{weights}: ({words})", line)
                    if ended:
                        left.discard(ended[1])
                    if not left:
                        break
                self.assertEqual(left, set(), "workers that did not end with the file's name")
                self.stop()
                self.janusctl.stdout.close()
                self.janusctl.stderr.close()

    def test_a_worker_that_is_stopped_alone_is_started_again(self):
        self.start_serving("--experts", "2")
        undisturbed = self.complete([5, 6, 7])
        self.killed("experts-1", signal.SIGTERM)
        out = self.wait_for_line("experts-1 runs")
        self.assertIn("experts-1 ended by itself or was stopped (SIGTERM)", out)
        self.assertIn(f"log: {self.logs}/experts-1.log; restarting it", out)
        self.assertEqual(self.complete([5, 6, 7]), undisturbed)
        self.stop()

    def test_a_stream_goes_on_over_the_loss_of_an_expert_instance(self):
        self.start_serving("--experts", "2")
        undisturbed = self.complete([5, 6, 7], tokens=400)
        answers = []
        asks = threading.Thread(target=lambda: answers.append(self.complete([5, 6, 7], tokens=400)))
        generated = self.generated()
        asks.start()
        wait_for(lambda: self.generated() > generated + 10, "some tokens of it")
        self.killed("experts-2")
        asks.join()
        self.assertEqual(answers, [undisturbed])
        self.stop()

    def generated(self):
        """Tokens so far, according to the gateway."""
        return self.metric("vllm:generation_tokens_total")


class Losing(ServeTest):
    def test_a_killed_janusctl_takes_its_workers_and_the_next_run_its_folder(self):
        self.start_serving("--experts", "2")
        self.assertEqual(len(self.processes()), 4)
        self.janusctl.kill()
        self.janusctl.wait()
        wait_for(lambda: not self.processes(), "the end of all processes")
        left = list(self.run_dir.iterdir())
        self.assertEqual(len(left), 1)
        self.janusctl.stdout.close()
        self.janusctl.stderr.close()
        self.start_serving("--experts", "2")
        self.assertFalse(left[0].exists())
        self.janusctl.send_signal(signal.SIGINT)
        self.ends()
        self.assert_nothing_left()

    def test_a_worker_that_dies_before_it_serves_ends_the_start(self):
        self.start("--experts", "2")
        experts = wait_for(
            lambda: [pid for pid, command in self.processes() if "--role=experts" in command], "an expert"
        )
        os.kill(experts[0], signal.SIGKILL)
        out, error = self.ends()
        self.assertEqual(self.janusctl.returncode, 1)
        self.assertNotIn("serving golden", out)
        self.assertRegex(error, r"experts-\d was ended by SIGKILL .*log: ")
        self.assert_nothing_left()

    def test_a_worker_that_dies_while_it_loads_ends_the_start(self):
        # Stopped between its first probe and the request to load, so that it dies while loading.
        self.start("--experts", "2")
        held = []
        for name in ("attention-1", "experts-2"):
            held.append(wait_for(lambda: self.find_pid(name), name))
            os.kill(held[-1], signal.SIGSTOP)
        wait_for(lambda: self.is_probed("experts-1"), "a worker that is ready")
        dying = self.pid_of("experts-1")
        os.kill(dying, signal.SIGSTOP)
        for pid in held:
            os.kill(pid, signal.SIGCONT)
        self.wait_for_line("loading weights")
        os.kill(dying, signal.SIGKILL)
        out, error = self.ends()
        self.assertEqual(self.janusctl.returncode, 1)
        self.assertNotIn("serving golden", out)
        self.assertIn("experts-1", error)
        self.assertIn(f"{self.logs}", error)
        self.assert_nothing_left()

    def test_ctrl_c_while_workers_start_leaves_nothing(self):
        self.start("--attention", "2", "--experts", "2")
        wait_for(self.processes, "the first worker")
        self.janusctl.send_signal(signal.SIGINT)
        _, error = self.ends()
        self.assertEqual((self.janusctl.returncode, error), (0, ""))
        self.assert_nothing_left()


class BadInput(ServeTest):
    def test_a_port_in_use_is_told_before_anything_starts(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            error = self.refused()
        self.assertIn(f"127.0.0.1:{self.port}: the port is in use", error)
        self.assertFalse(self.logs.exists())

    def test_a_metrics_port_in_use_is_named(self):
        first = free_ports(2)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", first + 1))
            taken.listen()
            error = self.refused("--worker-metrics-port", str(first))
        self.assertIn("experts-1", error)
        self.assertIn(f"cannot listen at '127.0.0.1:{first + 1}'", error)
        self.assertIn("--worker-metrics-port 65535: the 2 workers need one port each, and 65535 is the last",
                      self.refused("--worker-metrics-port", "65535"))

    def test_a_missing_sibling_is_named_with_its_path(self):
        for missing in ("janus-worker", "janus-gateway"):
            with self.subTest(missing):
                bin_dir = self.dir / missing
                bin_dir.mkdir()
                for program in ("janusctl", "janus-worker", "janus-gateway"):
                    if program != missing:
                        shutil.copy(BIN / program, bin_dir)
                error = self.refused(program=bin_dir / "janusctl")
                self.assertIn(f"{bin_dir}/{missing}: No such file or directory", error)

    def test_too_little_memory_is_told_in_figures_before_anything_starts(self):
        config = json.loads((self.model / "config.json").read_text())
        config.update(
            hidden_size=16384, intermediate_size=65536, num_hidden_layers=500, num_local_experts=512
        )
        (self.model / "config.json").write_text(json.dumps(config))
        error = self.refused()
        self.assertRegex(error, r"needs [\d.]+ [TP]B, [\d.]+ [GM]B free")
        self.assertFalse(self.logs.exists())

    def test_a_broken_object_is_refused_field_by_field(self):
        service = self.dir / "service.yaml"
        service.write_text(
            "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: golden}\n"
            "spec:\n  model: {source: {type: HostPath, hostPath: {path: /m}}}\n"
            "  roles: {attention: {replica: 1}, experts: {replicas: 1}}\n"
        )
        error = self.refused("-f", str(service), model=False)
        self.assertIn(
            f"{service}:6: spec.roles.attention.replica: is not a field here; did you mean "
            "'replicas'?",
            error,
        )
        service.write_text(service.read_text().replace("replica: 1", "replicas: 1") + "  device: CUDA\n")
        error = self.refused("-f", str(service), model=False)
        self.assertIn("spec.roles.attention.resources.limits: has no GPU, and spec.device is CUDA", error)

    def test_a_model_folder_that_is_none_is_named(self):
        self.assertIn("for example 2x4,4x2", self.refused("--nodes", "2x4"))
        error = self.refused("--model", str(self.dir / "none"), model=False)
        self.assertIn(f"{self.dir}/none: no such folder", error)
        (self.model / "tokenizer.json").unlink()
        self.assertIn(f"{self.model}/tokenizer.json: no such file", self.refused())
        (self.model / "config.json").unlink()
        self.assertIn(f"{self.model}/config.json: no such file", self.refused())

    def test_what_was_typed_is_what_is_blamed(self):
        error = self.refused("--name", "Not A Name")
        self.assertIn("--name: is 'Not A Name'", error)
        self.assertNotIn("service.yaml", error)
        error = self.refused("--chat-template", str(self.dir))
        self.assertIn(f"{self.dir}: is a folder; want a file with a chat template", error)

    def test_what_is_wrong_is_told_before_a_calibration_begins(self):
        def check(said, *options):
            with self.subTest(said):
                self.start("--sum", "fixed-point", *options)
                out, error = self.ends()
                self.assertIn(said, error)
                self.assertEqual(out, "", "it has not begun")

        check("--name: is 'Not A Name'", "--name", "Not A Name")
        check("want a file with a chat template", "--chat-template", str(self.dir))
        check("65535 is the last", "--worker-metrics-port", "65535")
        check("--memory-bytes: is 5242880", "--memory-bytes", str(5 << 20))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            check(f"127.0.0.1:{self.port}: the port is in use")

    def test_a_file_that_git_lfs_did_not_fetch_is_named(self):
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n"
        for name in ("tokenizer.json", "model.safetensors"):
            file = self.model / name
            kept = file.read_bytes()
            file.write_text(pointer)
            self.assertIn(f"{name}: is a git-LFS pointer, not the file itself; fetch it: git lfs pull",
                          self.refused())
            file.write_bytes(kept)

    def test_a_tokenizer_larger_than_the_model_is_named(self):
        shutil.copy(DEMO / "tokenizer.json", self.model)
        self.assertIn("its tokenizer has 3072 token ids", self.refused())

    def test_an_unknown_architecture_and_quantization_are_named(self):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps(dict(config, architectures=["LlamaForCausalLM"])))
        self.assertIn("'LlamaForCausalLM' is not supported; supported: DeepseekV2ForCausalLM", self.refused())
        path.write_text(json.dumps(dict(config, quantization_config={"quant_method": "awq"})))
        self.assertIn("quantization_config: quantized weights (awq)", self.refused())

    def test_a_truncated_shard_is_named(self):
        path = self.model / "model.safetensors"
        with open(path, "r+b") as weights:
            weights.truncate(path.stat().st_size // 2)
        self.assertIn("model.safetensors", self.refused("--experts", "2"))

    def test_a_tensor_of_the_wrong_shape_is_named(self):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps(dict(config, intermediate_size=config["intermediate_size"] * 2)))
        error = self.refused("--experts", "2")
        self.assertRegex(error, r"experts-\d: .*block_sparse_moe")

    def test_a_missing_weights_file_is_named(self):
        (self.model / "model.safetensors").unlink()
        self.assertIn("model.safetensors", self.refused())

    def read_weights(self):
        """The header of the one weights file, and the bytes behind it."""
        data = (self.model / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        return json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])

    def write_weights(self, header, data, name="model.safetensors"):
        text = json.dumps(header).encode()
        (self.model / name).write_bytes(struct.pack("<Q", len(text)) + text + data)

    def test_nan_weights_are_refused(self):
        for ending in ("q_proj.weight", "experts.5.w2.weight"):
            with self.subTest(ending):
                header, data = self.read_weights()
                name = next(n for n in header if n.endswith(ending))
                at = header[name]["data_offsets"][0]
                kept = data[at : at + 4]
                data[at : at + 4] = struct.pack("<f", float("nan"))
                self.write_weights(header, data)
                error = self.refused("--experts", "2")
                self.assertIn(name, error)
                self.assertIn("NaN", error)
                data[at : at + 4] = kept
                self.write_weights(header, data)

    def test_a_tensor_of_the_wrong_type_is_named(self):
        header, data = self.read_weights()
        name = next(n for n in header if n.endswith("k_proj.weight"))
        header[name]["dtype"] = "I32"
        self.write_weights(header, data)
        error = self.refused()
        self.assertIn(name, error)
        self.assertIn("I32", error)

    def split_into_shards(self):
        header, data = self.read_weights()
        metadata = header.pop("__metadata__", {})
        names = sorted(header)
        index = {}
        for shard, part in enumerate((names[::2], names[1::2]), 1):
            file = f"model-0000{shard}-of-00002.safetensors"
            own, bytes_ = {"__metadata__": metadata}, bytearray()
            for name in part:
                begin, end = header[name]["data_offsets"]
                own[name] = dict(header[name], data_offsets=[len(bytes_), len(bytes_) + end - begin])
                bytes_ += data[begin:end]
                index[name] = file
            self.write_weights(own, bytes_, file)
        (self.model / "model.safetensors").unlink()
        (self.model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))

    def test_a_missing_shard_of_an_index_is_named(self):
        self.split_into_shards()
        self.start_serving("--experts", "2")
        self.assertNotEqual(self.complete([1, 2, 3]), "", "both shards are enough")
        self.stop()
        missing = self.model / "model-00002-of-00002.safetensors"
        missing.unlink()
        error = self.refused("--experts", "2")
        self.assertIn(f"{missing}: No such file or directory", error)
        (self.model / "model.safetensors.index.json").write_text("{")
        self.assertIn("model.safetensors.index.json: not a JSON object", self.refused())

    def test_impossible_sizes_are_named_with_their_field(self):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        for field, value in (
            ("hidden_size", 0), ("hidden_size", -64), ("hidden_size", 10**18), ("hidden_size", "64"),
            ("num_attention_heads", 7), ("num_key_value_heads", 3), ("num_hidden_layers", 0),
            ("num_local_experts", 0), ("num_experts_per_tok", 9), ("num_experts_per_tok", 0),
            ("intermediate_size", 0), ("vocab_size", 0), ("max_position_embeddings", -1),
            ("rms_norm_eps", -1),
        ):
            with self.subTest(field=field, value=value):
                path.write_text(json.dumps(dict(config, **{field: value})))
                error = self.refused()
                self.assertIn(f"{path}: ", error)
                self.assertIn(field, error)
                self.assertFalse(self.logs.exists(), "told before anything starts")
        path.write_text("{")
        self.assertIn(f"{path}: ", self.refused())

    @unittest.skipIf(SANITIZED, "a sanitizer's runtime must be loaded first of all")
    def test_too_little_shared_memory_is_told_with_the_bytes(self):
        error = self.refused("--experts", "2", LD_PRELOAD=str(BIN / "failing-calls.so"),
                             FAILING_FALLOCATE=str(errno.ENOSPC))
        self.assertRegex(error, r"(attention|experts)-\d: .*exchange memory of \d+ bytes: "
                                r"No space left on device; lower maxBatchSize")

    @unittest.skipIf(SANITIZED, "a sanitizer's memory does not fit under qemu-user")
    @unittest.skipUnless(shutil.which("qemu-x86_64"), "qemu-user is not installed")
    def test_a_cpu_without_avx2_is_told(self):
        bin_dir = self.dir / "old-cpu"
        bin_dir.mkdir()
        for program in ("janusctl", "janus-gateway"):
            shutil.copy(BIN / program, bin_dir)
        worker = bin_dir / "janus-worker"
        worker.write_text(f'#!/bin/sh\nexec qemu-x86_64 -cpu Nehalem {BIN}/janus-worker "$@"\n')
        worker.chmod(0o755)
        error = self.refused(program=bin_dir / "janusctl")
        self.assertRegex(error, r"(attention|experts)-1 .*this CPU cannot serve.*AVX2")

    def test_a_broken_tokenizer_ends_with_its_name(self):
        (self.model / "tokenizer.json").write_text('{"model": ')
        self.assertIn("tokenizer.json", self.refused())

    def test_files_of_the_gateway_are_judged_before_the_weights_are_loaded(self):
        keys = self.dir / "keys"
        self.assertIn(f"{keys}: no such file; want a file with API keys", self.refused("--api-keys-file", str(keys)))
        self.assertFalse(self.logs.exists())
        keys.write_text("# none\n")
        self.assertIn(f"{keys}: has no key", self.refused("--api-keys-file", str(keys)))
        template = self.dir / "template"
        template.write_text("{% if %}")
        self.assertIn(f"{template}: chat template: line 1", self.refused("--chat-template", str(template)))

    def test_a_service_is_served_once(self):
        self.start_serving()
        second = subprocess.run(
            [BIN / "janusctl", "serve", "--model", self.model, "--port", str(free_port())],
            env=self.env, capture_output=True, text=True, timeout=DEADLINE,
        )
        self.assertNotEqual(second.returncode, 0)
        self.assertIn(f"service golden is already running as process {self.janusctl.pid}", second.stderr)
        self.assertNotEqual(self.complete([1, 2, 3]), "", "the first still serves")


if __name__ == "__main__":
    unittest.main(verbosity=2)
