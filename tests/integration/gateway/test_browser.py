"""A web page of another origin calls the gateway from headless Chromium."""

import http.server
import json
import sys
import threading

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "page"))
import browser  # noqa: E402

pytestmark = pytest.mark.skipif(browser.program() is None, reason="no Chromium: scripts/deps browser")

# What a chat page does: a preflight for its headers, then a stream. It can read headers and errors, too.
ASK = """
async (url, body) => {
  const answer = await fetch(url + "/v1/chat/completions", {
    method: "POST", body: JSON.stringify(body),
    headers: {"Content-Type": "application/json", "Authorization": "Bearer none", "X-Request-Id": "page-1"},
  });
  return {status: answer.status, id: answer.headers.get("X-Request-Id"), text: await answer.text()};
}
"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A chat</title>")

    def log_message(self, *_):
        pass


@pytest.fixture(name="page")
def open_page():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser.Browser() as chromium:
            origin = f"http://127.0.0.1:{server.server_port}"
            chromium.open(origin + "/")
            yield chromium, origin
        server.shutdown()


def ask(chromium, gateway, **more):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Good morning."}], "temperature": 0} | more
    return chromium.run(f"({ASK})({json.dumps(gateway.url)}, {json.dumps(body)})")


def test_a_page_of_an_allowed_origin_streams_and_reads_errors(start, page):
    chromium, origin = page
    gateway = start.gateway([start.scripted()], "--cors-origin", origin)
    answer = ask(chromium, gateway, stream=True)
    assert answer["status"] == 200 and answer["id"] == "page-1"
    chunks = [json.loads(line[6:]) for line in answer["text"].split("\n") if line.startswith("data: {")]
    assert "Good morning." in "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
    assert answer["text"].endswith("data: [DONE]\n\n")
    refused = ask(chromium, gateway, temperature=9)
    assert refused["status"] == 400 and json.loads(refused["text"])["error"]["param"] == "temperature"


def test_a_page_of_another_origin_gets_nothing(start, page):
    chromium, _ = page
    gateway = start.gateway([start.scripted()], "--cors-origin", "https://ui.example")
    with pytest.raises(RuntimeError, match="Failed to fetch"):
        ask(chromium, gateway)
