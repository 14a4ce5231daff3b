"""The bytes that the gateway holds for its clients have a common limit, and are freed."""

import json
import os
import threading

import pytest

from conftest import wait_until

MIB = 1 << 20
IN_USE = "janus_gateway_memory_bytes"


def head_of(length):
    return (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)


def answer_of(connection):
    said = b""
    while got := connection.recv(65536):
        said += got
    return said


def resident_bytes(gateway):
    pages = int(open(f"/proc/{gateway.child.pid}/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_body_beyond_the_budget_is_429_before_it_is_sent(start):
    gateway = start.gateway([start.scripted()], "--memory-bytes", str(16 * MIB))
    held = []
    for _ in range(3):  # requests may take three quarters
        held.append(gateway.connect())
        held[-1].sendall(head_of(4 * MIB))
    wait_until(lambda: gateway.metric(IN_USE) == 12 * MIB, "three announced bodies")
    with gateway.connect() as refused:
        refused.sendall(head_of(4 * MIB))
        said = answer_of(refused)
    assert said.startswith(b"HTTP/1.1 429 ") and b"\r\nRetry-After: " in said
    error = json.loads(said.split(b"\r\n\r\n", 1)[1])["error"]
    assert error["type"] == "rate_limit_error" and str(4 * MIB) in error["message"]
    assert gateway.metric("janus_gateway_memory_refused_total") == 1
    assert gateway.metric("janus_gateway_requests_shed_total") == 1
    for connection in held:
        connection.close()
    wait_until(lambda: gateway.metric(IN_USE) == 0, "what was given back")
    assert gateway.post({"model": "tiny", "prompt": "abc"}).status_code == 200


def test_a_refused_body_is_not_continued(start):
    gateway = start.gateway([start.scripted()], "--memory-bytes", str(16 * MIB))
    held = [gateway.connect() for _ in range(3)]
    for connection in held:
        connection.sendall(head_of(4 * MIB))
    wait_until(lambda: gateway.metric(IN_USE) == 12 * MIB, "three announced bodies")
    with gateway.connect() as refused:
        refused.sendall(head_of(4 * MIB)[:-2] + b"Expect: 100-continue\r\n\r\n")
        assert refused.recv(100).startswith(b"HTTP/1.1 429 ")
    for connection in held:
        connection.close()


def test_a_chunked_body_is_429_when_it_has_outgrown_the_budget(start):
    gateway = start.gateway([start.scripted()], "--memory-bytes", str(16 * MIB))
    held = [gateway.connect() for _ in range(2)]
    for connection in held:
        connection.sendall(head_of(4 * MIB))
    wait_until(lambda: gateway.metric(IN_USE) == 8 * MIB, "two announced bodies")
    third = gateway.connect()
    third.sendall(head_of(4 * MIB - 1000))
    wait_until(lambda: gateway.metric(IN_USE) > 11 * MIB, "a third")
    with gateway.connect() as chunked:
        chunked.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n")
        chunked.sendall(b"100\r\n" + b" " * 0x100 + b"\r\n")
        chunked.sendall(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
        assert answer_of(chunked).startswith(b"HTTP/1.1 429 ")
    for connection in [*held, third]:
        connection.close()


def test_resident_memory_follows_the_budget_and_not_the_clients(start):
    gateway = start.gateway([start.scripted()], "--memory-bytes", str(32 * MIB))
    before = resident_bytes(gateway)
    body = b" " * (4 * MIB - 1)  # one byte is missing
    held = []

    def send():
        connection = gateway.connect()
        held.append(connection)
        try:
            connection.sendall(head_of(4 * MIB) + body)
        except OSError:
            pass  # refused, and closed after a while

    threads = [threading.Thread(target=send) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gateway.metric("janus_gateway_memory_refused_total") == 54
    assert gateway.metric(IN_USE) == 24 * MIB
    # Allocators keep some freed memory; without a budget it would be 240 MiB.
    assert resident_bytes(gateway) - before < 64 * MIB
    for connection in held:
        connection.close()


def test_prompts_that_wait_count(start):
    worker = start.scripted("--max-requests", "1", "--stall-after", "1", "--max-context", "200000",
                            "--kv-capacity", "200000")
    gateway = start.gateway([worker], "--memory-bytes", str(6 * MIB), "--request-bytes", "600000")
    prompt = [5] * 100_000  # 1.2 MB while it waits: kept, in a message, and serialized
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 10, "stream": True}
    data = json.dumps(body, separators=(",", ":")).encode()
    waiting = []
    for count in range(1, 4):
        waiting.append(gateway.connect())
        waiting[-1].sendall(head_of(len(data)) + data)
        wait_until(lambda: gateway.metric(IN_USE) > count * 1.2e6
                   and gateway.metric("vllm:num_requests_waiting") == count - 1, "a prompt")
    got = gateway.post(data)
    assert got.status_code == 429 and int(got.headers["retry-after"]) >= 1
    assert "prompt" in got.json()["error"]["message"]
    for connection in waiting:
        connection.close()
    wait_until(lambda: gateway.metric(IN_USE) == 0, "what was given back")


def test_an_answer_that_outgrows_the_budget_ends_with_429(start):
    worker = start.scripted("--step-ms", "0", "--max-context", "10000000")
    gateway = start.gateway([worker], "--memory-bytes", str(1 * MIB), "--request-bytes", "100000")
    got = gateway.post({"model": "tiny", "prompt": "abc", "temperature": 0, "logprobs": 5,
                        "ignore_eos": True, "max_tokens": 5_000_000})
    assert got.status_code == 429 and "answer" in got.json()["error"]["message"]
    worker.wait_for("cancel")
    wait_until(lambda: gateway.metric(IN_USE) == 0, "what was given back")


def test_a_reader_is_cut_for_the_budget_before_its_own_buffer_is_full(start):
    fast = start.scripted("--step-ms", "1", "--max-context", "100000000")
    calm = start.scripted("--step-ms", "50", "--max-context", "100000000")
    gateway = start.gateway([fast, calm], "--memory-bytes", str(1 * MIB), "--request-bytes",
                            "100000", "--stream-buffer-bytes", str(64 * MIB))
    slow = gateway.connect()
    body = (b'{"model":"tiny","prompt":"abc","temperature":0,"max_tokens":10000000,'
            b'"ignore_eos":true,"stream":true,"logprobs":5}')
    slow.sendall(head_of(len(body)) + body)
    fast.wait_for("submit")
    other = gateway.client().completions.create(
        model="tiny", prompt="abc", temperature=0, max_tokens=10_000_000, stream=True,
        extra_body={"ignore_eos": True})
    calm.wait_for("submit")  # so that its reader keeps up even on a slow machine
    tokens = iter(other)
    while gateway.metric("janus_gateway_slow_reader_cut_total") == 0:
        next(tokens)  # a client that reads is still served
    for _ in range(10):
        next(tokens)
    assert gateway.metric("janus_gateway_memory_refused_total") == 1
    other.close()
    slow.close()
    wait_until(lambda: gateway.metric(IN_USE) == 0, "what was given back")


@pytest.mark.parametrize("flags", [("--memory-bytes", str(4 * MIB))])
def test_a_budget_below_one_request_is_refused_at_the_start(model, flags):
    from test_start import refuse

    said = refuse("--model", model, "--member", "unix:/x", *flags)
    assert "--memory-bytes" in said and "--request-bytes" in said


def test_the_limit_is_a_metric(shared):
    text = shared.metrics()
    assert "# TYPE janus_gateway_memory_limit_bytes gauge" in text
    assert 64 * MIB <= shared.metric("janus_gateway_memory_limit_bytes") <= 1024 * MIB
