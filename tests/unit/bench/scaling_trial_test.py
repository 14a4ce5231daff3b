#!/usr/bin/env python3
"""What a soak of bench/scaling_trial.py says of an API that does not answer."""

import contextlib
import http.server
import io
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


if __name__ == "__main__":
    unittest.main()
