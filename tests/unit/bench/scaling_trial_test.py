#!/usr/bin/env python3
"""What a soak of bench/scaling_trial.py says of an API that does not answer."""

import contextlib
import http.server
import io
import json
import pathlib
import socketserver
import sys
import tempfile
import threading
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import scaling_trial  # noqa: E402


class Refusing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"busy")

    def address_string(self):  # a Unix socket has none
        return "client"

    def log_message(self, *_):
        pass


class Soak(unittest.TestCase):
    def setUp(self):
        self.served = scaling_trial.Served.__new__(scaling_trial.Served)
        self.served.logs = self.enterContext(tempfile.TemporaryDirectory())
        self.served.file = pathlib.Path(self.served.logs) / "there" / "service.yaml"
        self.served.process = types.SimpleNamespace(pid=1)

    def serve(self):
        server = socketserver.UnixStreamServer(f"{self.served.logs}/api", Refusing)
        self.addCleanup(server.server_close)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)

    def test_a_look_that_fails_fails_the_soak(self):
        for what in ("FileNotFoundError", "RuntimeError: GET .*: 503 busy"):
            if what.startswith("Runtime"):
                self.serve()
            killer = scaling_trial.Killer(self.served, 0.001)
            killer.start()
            killer.join()  # it ends by itself
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                killer.report()
            self.assertRegex(said.getvalue(), what)
            with self.assertRaisesRegex(SystemExit, f"ended after 0 kills: {what}"):
                killer.check()

    def test_a_call_does_not_wait_for_ever(self):
        limits = []

        class Watched(scaling_trial.socket.socket):
            def connect(self, address):
                limits.append(self.gettimeout())
                super().connect(address)

        self.serve()
        self.addCleanup(setattr, scaling_trial.socket, "socket", scaling_trial.socket.socket)
        scaling_trial.socket.socket = Watched
        with self.assertRaises(RuntimeError):
            self.served.call("GET", "/api/v1/pods")
        self.assertEqual(limits, [30])


class Clock(unittest.TestCase):
    """A trace that is played eight times as fast."""

    ARGS = types.SimpleNamespace(time_scale=8, tpot=100, wrong_experts=1, model="deepseek-v2", scale=16)

    def test_a_service_has_its_times_on_the_clock_of_the_trace(self):
        spec = scaling_trial.service(self.ARGS, "model", {})["spec"]
        self.assertEqual(spec["scaling"], {"intervalSeconds": 2, "pendingTimeoutSeconds": 150})
        self.assertEqual(spec["slo"]["tpot"]["targetMilliseconds"], 12)
        self.assertEqual(spec["roles"]["attention"]["scaling"]["behavior"]["scaleDown"],
                         {"stabilizationWindowSeconds": 38, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 2}]})
        self.assertEqual(spec["roles"]["experts"]["placement"], {"rebalanceIntervalSeconds": 450})

    def test_parts_of_a_growth_are_seconds_of_the_trace(self):
        def event(reason, second, note=""):
            return {"reason": reason, "note": note, "eventTime": f"1970-01-01T00:00:{second}Z"}

        record = {"series": [{"t": 16, "tpotSeconds": 0.012}, {"t": 18, "tpotSeconds": 0.013}],
                  "decisions": [{"t": 20, "action": "ScaleUp", "from": "1A4E", "to": "2A4E", "reason": "SLOViolated"}]}
        events = [event("Created", 21, "made Pod a"), event("TopologyPrepared", 23), event("TopologyCommitted", 24)]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            took = scaling_trial.decisions(self.ARGS, record, events, 10)
        self.assertEqual(took, [32])
        growth = json.loads(said.getvalue().splitlines()[-1])
        self.assertEqual(growth | {"noticing": 16, "deciding": 8, "loading": 16, "commit": 8}, growth)


class OtherPolicies(unittest.TestCase):
    said = ""  # by janusctl load

    def trial(self, kept, **options):
        """The lines of a run of 1A4E in which `kept` of ten requests keep the target, by the number of micro-batches."""
        asked = []

        def served(folder, spec):
            asked.append(spec["spec"].get("pipeline", {}).get("microBatches"))
            return contextlib.nullcontext(types.SimpleNamespace(url=""))

        def load(*_):
            slow = 10 - kept[asked[-1]]
            return [{"arrival_seconds": 1, "error": "", "tpot_seconds": 9 if i < slow else 0.01, "ttft_seconds": 0.1} for i in range(10)], self.said

        for name, other in (("Served", served), ("load", load)):
            self.addCleanup(setattr, scaling_trial, name, getattr(scaling_trial, name))
            setattr(scaling_trial, name, other)
        args = types.SimpleNamespace(**{
            "by": "1A4E", "simulate": False, "shape": "swell", "quiet": 1, "busy": 1, "minutes": 1, "wrong_experts": 1, "time_scale": 1,
            "tpot": 50, "model": "deepseek-v2", "scale": 16, "least": "1A4E", "micro_batches": 0} | options)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            scaling_trial.run(args, pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())))
        return asked, [json.loads(line) for line in said.getvalue().splitlines()]

    def test_a_fixed_size_is_judged_by_the_better_of_one_and_two_micro_batches(self):
        for kept, best in (({1: 9, 2: 5}, 1), ({1: 5, 2: 9}, 2), ({1: 9, 2: 9}, 1)):
            asked, lines = self.trial(kept)
            self.assertEqual(asked, [1, 2])
            self.assertEqual([one["percent"] for one in lines if one["what"] == "attainment"], [10 * kept[1], 10 * kept[2]])
            self.assertEqual(lines[-1], {"bench": "scaling", "what": "better", "micro_batches": best, "percent": 90, "is_void": False})

    def test_a_number_of_micro_batches_is_the_only_one_that_runs(self):
        asked, lines = self.trial({2: 7}, micro_batches=2)
        self.assertEqual(asked, [2])
        self.assertEqual(lines[-1]["percent"], 70)

    def test_of_void_runs_none_is_better(self):
        self.said = "void: 3 % of the waits overran"
        self.assertTrue(self.trial({1: 9, 2: 5})[1][-1]["is_void"])


if __name__ == "__main__":
    unittest.main()
