"""An HTTP server with the page and a recording, whose answers a test can change."""

import http.server
import json
import pathlib
import threading

import recorded

PAGE = pathlib.Path(__file__).resolve().parents[2] / "operator" / "page" / "page.html"


def since(service, time):
    """Its points and changes after `time`, and its last decision."""
    last = service["decisions"][-1:]
    return {**service, "series": [p for p in service["series"] if p["t"] > time],
            "decisions": [d for d in service["decisions"] if d["t"] > time and d not in last] + last}


class ServedPage:
    """Use it as a context manager. `services`: what v1/services/NAMESPACE/NAME answers; `token`: what it asks for, or None;
    `failure`: (status, message) that it answers with instead, or None."""

    def __init__(self, services=None):
        self.services = [recorded.service()] if services is None else services
        self.token, self.failure = None, None
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                status, kind, body = served.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, path, authorization):
        if path == "/":
            return 200, "text/html; charset=utf-8", PAGE.read_bytes()
        if self.token and authorization != f"Bearer {self.token}":
            return self.json(401, {"message": "This server needs the token of an account that may read services."})
        if self.failure:
            return self.json(self.failure[0], {"message": self.failure[1]})
        if path == "/v1/services":
            return self.json(200, {"services": [{"namespace": s["namespace"], "name": s["name"]} for s in self.services]})
        for s in self.services:
            own = f"/v1/services/{s['namespace']}/{s['name']}"
            if path == own:
                return self.json(200, s)
            if path.startswith(f"{own}/since/"):
                return self.json(200, since(s, float(path.removeprefix(f"{own}/since/"))))
        return self.json(404, {"message": f"There is no service at {path}."})

    def json(self, status, value):
        return status, "application/json", json.dumps(value).encode()
