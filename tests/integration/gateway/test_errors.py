"""Causes every row of the error table in docs/openai-api.md once."""

import json
import re
import shutil
import signal
import threading

import httpx
import pytest

from conftest import ROOT, wait_until

PAGE = (ROOT / "docs" / "openai-api.md").read_text()
ROWS = {(int(s), c) for s, c in re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.M)}
CASES = {}


def row(status, code):
    def keep(function):
        CASES[status, code] = function
        return function

    return keep


def body(**changes):
    return {"model": "tiny", "prompt": "It is", "temperature": 0, **changes}


@row(400, "malformed_request")
def malformed_request(start):
    gateway = start.gateway([start.scripted()])
    return raw(gateway, b"GET /health HTTP/9.9\r\n\r\n")


@row(400, "malformed_json")
def malformed_json(start):
    return start.gateway([start.scripted()]).post(b"{")


@row(400, "invalid_value")
def invalid_value(start):
    return start.gateway([start.scripted()]).post(body(temperature=-1))


@row(400, "unsupported_parameter")
def unsupported_parameter(start):
    return start.gateway([start.scripted()]).post(body(guided_magic=2))


@row(400, "context_length_exceeded")
def context_length_exceeded(start):
    return start.gateway([start.scripted()]).post(body(prompt=[5] * 2000))


@row(400, "no_chat_template")
def no_chat_template(start):
    bare = start.folder / "bare"
    shutil.copytree(start.model, bare)
    config = json.loads((bare / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (bare / "tokenizer_config.json").write_text(json.dumps(config))
    gateway = start.gateway([start.scripted()], model=bare)
    return gateway.post({"model": "tiny", "messages": [{"role": "user", "content": "x"}]},
                        "/v1/chat/completions")


@row(401, "invalid_api_key")
def invalid_api_key(start):
    keys = start.folder / "keys"
    keys.write_text("secret\n")
    return start.gateway([start.scripted()], "--api-keys-file", keys).post(body())


@row(404, "not_found")
def not_found(start):
    return start.gateway([start.scripted()]).post(body(), "/v1/nothing")


@row(404, "model_not_found")
def model_not_found(start):
    return start.gateway([start.scripted()]).post(body(model="gpt-9"))


@row(405, "method_not_allowed")
def method_not_allowed(start):
    got = start.gateway([start.scripted()]).get("/v1/completions")
    assert got.headers["allow"] == "POST"
    return got


@row(408, "timeout")
def too_slow(start):
    gateway = start.gateway([start.scripted()], "--read-seconds", "1")
    return raw(gateway, b"POST /v1/completions HTTP/1.1\r\n")


@row(413, "request_too_large")
def request_too_large(start):
    return start.gateway([start.scripted()], "--request-bytes", "10").post(body())


@row(415, "unsupported_encoding")
def unsupported_encoding(start):
    got = start.gateway([start.scripted()]).post(b"x", headers={"Content-Encoding": "br"})
    assert "br" in got.json()["error"]["message"]
    assert got.headers["accept-encoding"] == "gzip, deflate, zstd"
    return got


@row(429, "overloaded")
def overloaded(start):
    gateway = start.gateway([start.scripted("--max-requests", "0")], "--queued-requests", "0")
    got = gateway.post(body())
    assert int(got.headers["retry-after"]) >= 1
    return got


@row(431, "headers_too_large")
def headers_too_large(start):
    return start.gateway([start.scripted()]).get("/health", headers={"X-Large": "y" * 40_000})


@row(500, "internal_error")
def internal_error(start):
    return start.gateway([start.scripted("--error-after", "0")]).post(body())


@row(502, "worker_lost")
def worker_lost(start):
    worker = start.scripted("--stall-after", "2")
    gateway = start.gateway([worker])
    got = {}
    asked = threading.Thread(target=lambda: got.update(reply=gateway.post(body())))
    asked.start()
    wait_until(lambda: gateway.metric("vllm:generation_tokens_total") == 2, "two tokens")
    worker.stop(signal.SIGKILL)
    asked.join()
    return got["reply"]


@row(503, "service_unavailable")
def service_unavailable(start):
    got = start.gateway([f"unix:{start.folder}/nobody.sock"], attached=0).post(body())
    assert int(got.headers["retry-after"]) >= 1
    return got


@row(504, "timeout")
def no_token(start):
    gateway = start.gateway([start.scripted("--stall-after", "0")], "--first-token-seconds", "1")
    return gateway.post(body())


def raw(gateway, data):
    """The answer to bytes that client libraries do not send."""
    with gateway.connect() as connection:
        connection.sendall(data)
        said = b""
        while got := connection.recv(65536):
            said += got
    head, content = said.split(b"\r\n\r\n", 1)
    return httpx.Response(int(head.split(b" ", 2)[1]), content=content)


def test_the_table_has_every_case_and_no_other():
    assert ROWS == set(CASES)


@pytest.mark.parametrize("status, code", sorted(ROWS))
def test_an_error_is_as_the_page_says(start, status, code):
    got = CASES[status, code](start)
    error = got.json()["error"]
    assert (got.status_code, error["code"]) == (status, code), error
    assert set(error) == {"message", "type", "param", "code"} and error["message"]


def test_an_error_in_mid_stream_is_an_event_and_no_finish_reason(start):
    gateway = start.gateway([start.scripted("--error-after", "2")])
    got = gateway.post(body(stream=True, ignore_eos=True, max_tokens=10))
    assert got.status_code == 200
    events = [e.removeprefix("data: ") for e in got.text.split("\n\n") if e]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["error"]["code"] == "internal_error"
    for event in events[:-2]:
        assert json.loads(event)["choices"][0]["finish_reason"] is None
