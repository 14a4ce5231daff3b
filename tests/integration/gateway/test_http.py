"""Raw sockets, for requests that client libraries do not send."""

import gzip
import json
import re
import socket
import zlib

import httpx
import pytest

from conftest import DEADLINE, ROOT, wait_until


def talk(gateway, data, more=b"", half_close=False):
    """Everything that the gateway sends until it closes."""
    with gateway.connect() as connection:
        connection.sendall(data)
        if more:
            connection.sendall(more)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        said = b""
        while got := connection.recv(65536):
            said += got
        return said


def request(body, path=b"/v1/completions", headers=b"", method=b"POST"):
    return (b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n"
            % (method, path, headers, len(body)) + body)


def status(said):
    return int(said.split(b" ", 2)[1])


def error(said):
    head, body = said.split(b"\r\n\r\n", 1)
    assert b"application/json" in head
    return json.loads(body)["error"]


@pytest.mark.parametrize("data", [
    b"nonsense\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /health HTTP/9.9\r\n\r\n",
    b"GET /health HTTP/1.1\r\nBad Header\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS on the plain port
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: minus\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n123456",
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
])
def test_malformed_http_is_400(shared, data):
    said = talk(shared, data)
    assert status(said) == 400 and error(said)["code"] == "malformed_request"


def test_nothing_and_half_a_request_are_closed_in_silence(shared):
    assert talk(shared, b"", half_close=True) == b""
    assert talk(shared, b"GET /hea", half_close=True) == b""
    assert talk(shared, b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", half_close=True) == b""


def test_huge_headers_are_431(shared):
    assert status(talk(shared, b"GET /health HTTP/1.1\r\nX: " + b"y" * 40000 + b"\r\n\r\n")) == 431


def test_a_body_over_the_limit_is_413_before_it_is_sent(shared):
    said = talk(shared, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                        b"Content-Length: 999999999999\r\n\r\n{")
    assert status(said) == 413 and error(said)["code"] == "request_too_large"


def test_a_chunked_body_over_the_limit_is_413(start):
    gateway = start.gateway([start.scripted()], "--request-bytes", "1000")
    said = talk(gateway, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n", b"800\r\n" + b" " * 0x800)
    assert status(said) == 413


def test_a_chunked_body_is_read(shared):
    body = b'{"model":"tiny","prompt":"abc","temperature":0}'
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:half], body[half:], b""))
    said = talk(shared, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert status(said) == 200 and b'"text":"abc"' in said


def test_expect_continue_is_answered(shared):
    with shared.connect() as connection:
        body = b'{"model":"tiny","prompt":"abc","temperature":0}'
        whole = request(body, headers=b"Expect: 100-continue\r\n")
        connection.sendall(whole[: -len(body)])
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        said = b"".join(iter(lambda: connection.recv(4096), b""))
        assert said.startswith(b"HTTP/1.1 200 OK") and b"100 Continue" not in said


@pytest.mark.parametrize("body", [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"model":"tiny","prompt":"\xff\xfe"}',
    b'{"model":"tiny","prompt":"\xc3"}',
    b'{"model":"tiny","prompt":"\\ud800"}',
    b'{"model":"tiny","prompt":"x","temperature":NaN}',
    b'{"model":"tiny","prompt":"x","temperature":1e999}',
    b"[" * 100_000,
    b'{"model":' * 1000,
    b"\x00" * 10,
])
@pytest.mark.parametrize("path", [b"/v1/completions", b"/v1/chat/completions"])
def test_malformed_json_is_one_clear_400(shared, path, body):
    said = talk(shared, request(body, path))
    assert status(said) == 400
    got = error(said)
    assert got["code"] == "malformed_json" and got["type"] == "invalid_request_error"
    assert len(got["message"]) < 400


def test_wrong_paths_and_methods_are_refused(shared):
    assert status(talk(shared, request(b"", b"/v1/nothing"))) == 404
    said = talk(shared, request(b"", b"/v1/completions", method=b"GET"))
    assert status(said) == 405 and b"Allow: POST" in said
    assert status(talk(shared, request(b"{}", b"/health"))) == 405


def test_head_has_no_body(shared):
    said = talk(shared, b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status(said) == 200 and said.endswith(b"\r\n\r\n")


def test_old_http_streams_without_chunks(shared):
    body = b'{"model":"tiny","prompt":"abc","temperature":0,"stream":true}'
    said = talk(shared, b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
                + body)
    assert status(said) == 200 and b"chunked" not in said
    assert said.endswith(b"data: [DONE]\n\n")


def test_a_stream_is_framed_as_events(shared):
    body = {"model": "tiny", "prompt": "abc", "temperature": 0, "stream": True}
    got = shared.post(body)
    assert got.headers["content-type"].startswith("text/event-stream")
    events = got.text.split("\n\n")
    assert events[-1] == "" and events[-2] == "data: [DONE]"
    for event in events[:-2]:
        assert event.startswith("data: ") and "\n" not in event
        json.loads(event.removeprefix("data: "))


def test_a_silent_stream_begins_at_once_and_sends_comments(start):
    gateway = start.gateway([start.scripted("--stall-after", "0")], "--comment-seconds", "1")
    body = json.dumps({"model": "tiny", "prompt": "abc", "stream": True}).encode()
    with gateway.connect() as connection:
        connection.sendall(request(body))
        said = b""
        while said.count(b"\n: waiting\n\n") < 2:
            got = connection.recv(4096)
            assert got, said
            said += got
    assert said.startswith(b"HTTP/1.1 200") and b"text/event-stream" in said


def test_compressed_bodies_are_read(shared):
    plain = json.dumps({"model": "tiny", "prompt": "abc", "temperature": 0}).encode()
    want = shared.post(plain).json()["choices"]
    for coding, data in (("gzip", gzip.compress(plain)), ("deflate", zlib.compress(plain))):
        got = shared.post(data, headers={"Content-Encoding": coding})
        assert got.status_code == 200, got.text
        assert got.json()["choices"] == want
    got = shared.post(b"\x28\xb5\x2f\xfd\x04\x00abc", headers={"Content-Encoding": "zstd"})
    assert got.status_code == 400 and "zstd" in got.json()["error"]["message"]


def test_a_body_that_decodes_to_too_much_is_413(shared):
    bomb = gzip.compress(b" " * (64 << 20))
    got = shared.post(bomb, headers={"Content-Encoding": "gzip"})
    assert got.status_code == 413 and got.json()["error"]["code"] == "request_too_large"


def test_pages_of_an_allowed_origin_may_call(start):
    gateway = start.gateway([start.scripted()], "--cors-origin", "https://ui.example")
    origin = {"Origin": "https://ui.example"}
    got = httpx.options(gateway.url + "/v1/chat/completions", headers={
        **origin, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type"})
    assert got.status_code == 204
    assert got.headers["access-control-allow-headers"] == "authorization,content-type"
    for body, status_code in (({"model": "tiny", "prompt": "a"}, 200), ({}, 400)):
        got = gateway.post(body, headers=origin)
        assert got.status_code == status_code
        assert got.headers["access-control-allow-origin"] == "https://ui.example"
    got = gateway.post({}, headers={"Origin": "https://other.example"})
    assert "access-control-allow-origin" not in got.headers


def test_a_request_id_is_echoed_or_drawn(shared):
    assert shared.get("/health", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    drawn = [shared.get("/health", headers=h).headers["x-request-id"]
             for h in ({}, {"X-Request-Id": "a b"}, {"X-Request-Id": "x" * 129})]
    assert len(set(drawn)) == 3 and all(one.startswith("req-") for one in drawn)
    assert shared.post(b"{").headers["x-request-id"]


def test_unknown_parameters_are_ignored_by_option(start):
    gateway = start.gateway([start.scripted()], "--unknown-parameters", "ignore")
    for stream in (False, True):
        got = gateway.post({"model": "tiny", "prompt": "a", "magic": 1, "stream": stream})
        assert got.status_code == 200 and got.headers["x-ignored-parameters"] == "magic"


def test_text_becomes_tokens_and_text_again(shared):
    got = shared.post({"prompt": "It is", "return_token_strs": True}, "/tokenize").json()
    assert got["count"] == len(got["tokens"]) == len(got["token_strs"]) > 0
    assert got["max_model_len"] == shared.get("/v1/models").json()["data"][0]["max_model_len"]
    asked = {"model": "tiny", "prompt": "It is", "return_token_ids": True}
    assert shared.post(asked).json()["choices"][0]["prompt_token_ids"] == got["tokens"]
    text = shared.post({"tokens": got["tokens"][1:]}, "/detokenize").json()["prompt"]
    assert text == "It is"
    chat = {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": False}
    with_prompt = {**chat, "add_generation_prompt": True}
    assert (shared.post(chat, "/tokenize").json()["count"]
            <= shared.post(with_prompt, "/tokenize").json()["count"])
    for path, wrong in (("/tokenize", {}), ("/tokenize", {"model": "x", "prompt": "a"}),
                        ("/detokenize", {"tokens": "a"}), ("/detokenize", {"tokens": [-1]})):
        assert shared.post(wrong, path).status_code in (400, 404), wrong


def test_the_model_has_further_names(start):
    gateway = start.gateway([start.scripted()], "--model-alias", "org/tiny")
    names = [m["id"] for m in gateway.get("/v1/models").json()["data"]]
    assert names == ["tiny", "org/tiny"]
    for path in ("org/tiny", "org%2Ftiny"):
        assert gateway.get("/v1/models/" + path).json()["id"] == "org/tiny"
    got = gateway.post({"model": "org/tiny", "prompt": "a"})
    assert got.status_code == 200 and got.json()["model"] == "tiny"


def test_requests_share_a_connection(shared):
    with httpx.Client(base_url=shared.url, timeout=DEADLINE) as client:
        for stream in (False, True, False):
            body = {"model": "tiny", "prompt": "abc", "temperature": 0, "stream": stream}
            assert client.post("/v1/completions", json=body).status_code == 200
        assert client.get("/health").status_code == 200


def test_pipelined_requests_are_answered_in_order(shared):
    one = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n")
    bodies = [json.dumps({"model": "tiny", "prompt": p, "temperature": 0}).encode()
              for p in ("first", "second", "third")]
    data = b"".join(one % len(b) + b for b in bodies)
    said = talk(shared, data + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    positions = [said.index(t) for t in (b'"first"', b'"second"', b'"third"', b'{"status":"ok"}')]
    assert positions == sorted(positions)


def test_a_slow_request_is_408(start):
    gateway = start.gateway([start.scripted()], "--read-seconds", "1")
    assert status(talk(gateway, b"POST /v1/comp")) == 408
    assert status(talk(gateway, b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")) == 408


def test_metrics_are_readable_text(shared):
    got = shared.get("/metrics")
    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in ("vllm:num_requests_waiting", "vllm:num_requests_running",
                 "vllm:kv_cache_usage_perc", "vllm:time_to_first_token_seconds",
                 "vllm:inter_token_latency_seconds", "vllm:request_time_per_output_token_seconds",
                 "vllm:e2e_request_latency_seconds"):
        assert f"# TYPE {name} " in got.text
    names = [line.split(" ")[2] for line in got.text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert set(re.findall(r"`((?:vllm:|janus_gateway_|janus_connections_)\w+)", page)) == set(names)


def test_connections_that_leave_are_forgotten(shared):
    before = shared.metric("janus_gateway_connections")
    held = [shared.connect() for _ in range(50)]
    wait_until(lambda: shared.metric("janus_gateway_connections") >= before + 50, "connections")
    for connection in held:
        connection.close()
    wait_until(lambda: shared.metric("janus_gateway_connections") <= before, "their end")
