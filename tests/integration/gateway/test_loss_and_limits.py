"""Clients that leave, instances that are lost, queues that are full, deadlines, draining."""

import array
import base64
import errno
import json
import signal
import socket
import threading
import time

import httpx
import openai
import pytest

from conftest import BIN, DEADLINE, Scripted, wait_until

ATTACHED = "janus_gateway_attention_instances"
ENDLESS = {"model": "tiny", "prompt": "abc", "temperature": 0, "max_tokens": 1000,
           "ignore_eos": True, "stream": True}


def begin(gateway, **changes):
    """An endless stream, after its first token."""
    client = gateway.client()
    body = {**ENDLESS, **changes}
    stream = client.completions.create(
        model="tiny", prompt=body["prompt"], temperature=0, max_tokens=body["max_tokens"],
        stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    next(iter(stream))
    return stream


def send(connection, body):
    data = json.dumps(body).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                       % len(data) + data)


def test_a_client_that_leaves_in_mid_stream_cancels(start):
    worker = start.held()
    gateway = start.gateway([worker])
    stream = begin(gateway)
    stream.close()
    worker.wait_for("cancel")
    wait_until(lambda: gateway.metric("janus_gateway_open_streams") == 0, "the stream's end")
    assert gateway.metric("janus_gateway_client_gone_total") == 1


def test_a_client_that_leaves_while_it_waits_cancels(start):
    worker = start.scripted("--stall-after", "0")
    gateway = start.gateway([worker])
    leaver = gateway.connect()
    send(leaver, {**ENDLESS, "stream": False})
    worker.wait_for("submit")
    leaver.close()
    worker.wait_for("cancel")


def test_requests_go_to_the_instance_with_fewer_tokens(start):
    workers = [start.held(), start.held()]
    gateway = start.gateway(workers)
    long = begin(gateway, prompt="a truth universally " * 20, max_tokens=500)
    short = [begin(gateway) for _ in range(3)]
    # A worker's statistics arrive on a different way than its tokens.
    assert len(workers[1].wait_for("submit", 3)) == 3
    assert len(workers[0].wait_for("submit")) == 1
    for stream in [long, *short]:
        stream.close()


def test_a_lost_instance_without_tokens_costs_only_time(start):
    lost = start.scripted("--stall-after", "0")
    gateway = start.gateway([lost])
    other = start.scripted()
    gateway = start.gateway([lost, other])
    result = {}
    asked = threading.Thread(target=lambda: result.update(
        answer=gateway.client().completions.create(
            model="tiny", prompt="It is", temperature=0, seed=5)))
    asked.start()
    lost.wait_for("submit")
    lost.stop(signal.SIGKILL)
    asked.join()
    assert result["answer"].choices[0].text == "It is"
    retried = other.wait_for("submit")[0]
    assert retried["attempt"] == 2 and retried["seed"] == 5
    assert gateway.metric("janus_gateway_resubmitted_total") == 1


def test_a_stream_is_replayed_where_the_instance_can(start):
    first = start.scripted("--stall-after", "4", "--replay")
    second = start.scripted("--replay")
    gateway = start.gateway([first, second])
    stream = gateway.client().completions.create(
        model="tiny", prompt="It is a truth", temperature=0, max_tokens=50, stream=True)
    text = next(iter(stream)).choices[0].text
    wait_until(lambda: gateway.metric("vllm:generation_tokens_total") == 4, "four tokens")
    first.stop(signal.SIGKILL)
    text += "".join(chunk.choices[0].text for chunk in stream)
    assert text == "It is a truth"
    assert second.wait_for("submit")[0]["generated"] == 4


def test_the_experts_of_a_replayed_answer_are_whole(start):
    first = start.scripted("--stall-after", "4", "--replay")
    second = start.scripted("--replay")
    gateway = start.gateway([first, second])
    asked = {"return_routed_experts": True, "return_token_ids": True}
    result = {}
    def ask():
        result["answer"] = gateway.client().completions.create(
            model="tiny", prompt="It is a truth", temperature=0, max_tokens=50, extra_body=asked)
    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: gateway.metric("vllm:generation_tokens_total") == 4, "four tokens")
    first.stop(signal.SIGKILL)
    asking.join()
    assert second.wait_for("submit")[0]["generated"] == 4
    answer = result["answer"]
    ids = array.array("i", base64.b64decode(answer.sglext["routed_experts"])).tolist()
    wanted = [[-1, -1, p, p + 1] for p in range(answer.usage.total_tokens - 1)]
    assert ids == [id for position in wanted for id in position]


def test_a_stream_that_cannot_be_replayed_ends_with_an_error(start):
    worker = start.held()
    gateway = start.gateway([worker], "--hold-seconds", "0")
    stream = begin(gateway)
    worker.stop(signal.SIGKILL)
    with pytest.raises(openai.APIError, match="was lost"):
        for _ in stream:
            pass
    assert gateway.post({**ENDLESS, "stream": False}).status_code == 503
    assert gateway.get("/health").status_code == 503


def test_requests_wait_for_an_instance_that_comes_back(start):
    first = start.scripted("--stall-after", "4", "--replay")
    gateway = start.gateway([first])
    stream = gateway.client().completions.create(
        model="tiny", prompt="It is a truth", temperature=0, max_tokens=50, stream=True)
    text = next(iter(stream)).choices[0].text
    wait_until(lambda: gateway.metric("vllm:generation_tokens_total") == 4, "four tokens")
    first.stop(signal.SIGKILL)
    wait_until(lambda: gateway.metric(ATTACHED) == 0, "the loss")
    health = gateway.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "holding"})
    whole = {}
    asked = threading.Thread(target=lambda: whole.update(
        got=gateway.post({"model": "tiny", "prompt": "It is", "temperature": 0})))
    asked.start()
    wait_until(lambda: gateway.metric("vllm:num_requests_waiting") == 2, "both to wait")
    start.processes.append(Scripted(first.address, "--replay"))
    text += "".join(chunk.choices[0].text for chunk in stream)
    assert text == "It is a truth"
    asked.join()
    assert whole["got"].json()["choices"][0]["text"] == "It is"


def test_what_waits_too_long_for_an_instance_is_503(start):
    worker = start.held()
    gateway = start.gateway([worker], "--hold-seconds", "1")
    worker.stop(signal.SIGKILL)
    wait_until(lambda: gateway.metric(ATTACHED) == 0, "the loss")
    got = gateway.post({"model": "tiny", "prompt": "x"})
    assert got.status_code == 503 and int(got.headers["retry-after"]) >= 1
    assert gateway.get("/health").status_code == 503


def test_an_answer_that_cannot_be_replayed_is_502(start):
    worker = start.scripted("--stall-after", "2")
    gateway = start.gateway([worker])
    result = {}
    asked = threading.Thread(
        target=lambda: result.update(got=gateway.post({**ENDLESS, "stream": False})))
    asked.start()
    wait_until(lambda: gateway.metric("vllm:generation_tokens_total") == 2, "two tokens")
    worker.stop(signal.SIGKILL)
    asked.join()
    assert result["got"].status_code == 502
    assert result["got"].json()["error"]["code"] == "worker_lost"


def test_an_instance_that_comes_back_is_attached_again(start):
    worker = start.scripted()
    gateway = start.gateway([worker])
    worker.stop(signal.SIGKILL)
    wait_until(lambda: gateway.metric(ATTACHED) == 0, "the loss")
    start.processes.append(Scripted(worker.address))
    wait_until(lambda: gateway.metric(ATTACHED) == 1, "the return")
    assert gateway.get("/health").json() == {"status": "ok"}
    assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 200


def test_without_any_instance_requests_are_503(start):
    gateway = start.gateway([f"unix:{start.folder}/nobody.sock"], attached=0)
    got = gateway.post({"model": "tiny", "prompt": "x"})
    assert got.status_code == 503 and int(got.headers["retry-after"]) >= 1
    assert gateway.get("/health").status_code == 503
    assert gateway.get("/v1/models").status_code == 200


@pytest.mark.parametrize("code, status", [
    (3, 400),  # INVALID_ARGUMENT
    (8, 429),  # RESOURCE_EXHAUSTED
    (13, 500),  # INTERNAL
    (14, 503),  # UNAVAILABLE
    (0, 500), (99, 500),  # without a meaning
])
def test_an_error_of_the_instance_reaches_the_client_with_its_meaning(start, code, status):
    gateway = start.gateway([start.scripted("--error-after", "0", "--error-code", str(code))])
    got = gateway.post({"model": "tiny", "prompt": "x"})
    assert got.status_code == status and "scripted failure" in got.json()["error"]["message"]
    assert ("retry-after" in got.headers) == (status in (429, 503))


def test_what_one_instance_has_no_room_for_is_tried_at_another(start):
    full = start.scripted("--error-after", "0", "--error-code", "8")
    gateway = start.gateway([full, start.scripted()])
    for _ in range(4):
        assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 200


def test_the_queue_is_bounded_and_answers_429(start):
    worker = start.held("--max-requests", "1")
    gateway = start.gateway([worker], "--queued-requests", "1")
    running = begin(gateway)
    waits = gateway.connect()
    send(waits, {"model": "tiny", "prompt": "abc"})
    wait_until(lambda: gateway.metric("vllm:num_requests_waiting") == 1, "the queue")
    got = gateway.post({"model": "tiny", "prompt": "x"})
    assert got.status_code == 429 and 1 <= int(got.headers["retry-after"]) <= 60
    assert got.json()["error"]["type"] == "rate_limit_error"
    with pytest.raises(openai.RateLimitError):
        gateway.client().completions.create(model="tiny", prompt="x")
    running.close()  # the waiting one starts
    worker.wait_for("submit", 2)
    worker.release()
    assert waits.recv(4096).startswith(b"HTTP/1.1 200 OK")
    waits.close()


def test_a_full_instance_is_left_for_another(start):
    full, free = start.scripted("--reject", "1"), start.scripted()
    gateway = start.gateway([full, free])
    assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 200
    assert free.wait_for("submit")[0]["attempt"] == 2


def test_open_streams_are_bounded(start):
    worker = start.held()
    gateway = start.gateway([worker], "--open-streams", "2")
    streams = [begin(gateway) for _ in range(2)]
    assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 429
    for stream in streams:
        stream.close()
    worker.release()
    wait_until(lambda: gateway.metric("janus_gateway_open_streams") == 0, "the streams' end")
    assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 200


def test_no_token_before_the_deadline_is_504(start):
    worker = start.scripted("--stall-after", "0")
    gateway = start.gateway([worker], "--first-token-seconds", "1")
    got = gateway.post({"model": "tiny", "prompt": "x"})
    assert got.status_code == 504 and got.json()["error"]["code"] == "timeout"
    worker.wait_for("cancel")


def test_a_stream_that_stalls_ends_with_an_error(start):
    worker = start.scripted("--stall-after", "2")
    gateway = start.gateway([worker], "--stall-seconds", "1")
    stream = begin(gateway)
    with pytest.raises(openai.APIError, match="deadline"):
        for _ in stream:
            pass
    worker.wait_for("cancel")


def test_a_slow_reader_is_cut_and_others_are_not(start):
    worker = start.scripted("--step-ms", "1", "--max-context", "100000000")
    gateway = start.gateway([worker], "--stream-buffer-bytes", "65536")
    slow = gateway.connect()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    send(slow, {**ENDLESS, "max_tokens": 10_000_000, "logprobs": 5})
    wait_until(lambda: gateway.metric("janus_gateway_slow_reader_cut_total") == 1, "the cut")
    worker.wait_for("cancel")
    wait_until(lambda: gateway.metric("janus_gateway_open_streams") == 0, "the stream's end")
    slow.close()
    assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 200


def test_draining_finishes_what_runs_and_takes_no_more(start):
    worker = start.held()
    gateway = start.gateway([worker])
    stream = begin(gateway, max_tokens=60)
    gateway.child.send_signal(signal.SIGTERM)
    wait_until(lambda: not can_connect(gateway), "the closed listener")
    worker.release()
    assert list(stream)[-1].usage.completion_tokens == 60
    assert gateway.child.wait(timeout=DEADLINE) == 0


def test_a_lame_duck_answers_whoever_still_comes_and_sends_them_elsewhere(start):
    gateway = start.gateway([start.scripted()], "--lame-duck-seconds", "3600")
    with httpx.Client(base_url=gateway.url, timeout=DEADLINE) as kept:
        assert "connection" not in kept.get("/v1/models").headers
        gateway.child.send_signal(signal.SIGTERM)
        wait_until(lambda: gateway.get("/health").status_code == 503, "its being said to leave")
        for client in (kept, httpx):  # an older connection and a new one
            url = "" if client is kept else gateway.url
            reply = client.post(url + "/v1/completions", json={"model": "tiny", "prompt": "x"}, timeout=DEADLINE)
            assert (reply.status_code, reply.headers["connection"]) == (200, "close")
    gateway.child.send_signal(signal.SIGTERM)
    assert gateway.child.wait(timeout=DEADLINE) == 0


def test_a_lame_duck_drains_when_its_time_is_over(start):
    worker = start.held()
    gateway = start.gateway([worker], "--lame-duck-seconds", "1")
    stream = begin(gateway, max_tokens=60)
    gateway.child.send_signal(signal.SIGTERM)
    wait_until(lambda: not can_connect(gateway), "the closed listener")
    worker.release()
    assert list(stream)[-1].usage.completion_tokens == 60
    assert gateway.child.wait(timeout=DEADLINE) == 0


@pytest.mark.parametrize("seconds", ["0", "1"])
def test_what_a_drain_cuts_ends_with_an_error_that_clients_understand(start, seconds):
    worker = start.held()
    gateway = start.gateway([worker], "--drain-seconds", seconds)
    stream = begin(gateway)
    whole = {}

    def ask():
        try:
            gateway.client().completions.create(
                model="tiny", prompt="abc", max_tokens=1000, extra_body={"ignore_eos": True})
        except openai.APIError as error:
            whole["error"] = error

    asked = threading.Thread(target=ask)
    asked.start()
    unread = gateway.connect()  # announces more than it sends
    unread.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    worker.wait_for("submit", 2)
    wait_until(lambda: gateway.metric("janus_gateway_connections") == 4, "all connections")
    gateway.child.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError, match="the gateway is stopping") as error:
        for _ in stream:
            pass
    assert error.value.code == "service_unavailable"
    asked.join()
    assert isinstance(whole["error"], openai.InternalServerError), repr(whole["error"])
    assert whole["error"].status_code == 503
    assert whole["error"].response.headers["retry-after"] == "1"
    assert unread.recv(4096).startswith(b"HTTP/1.1 503 ")
    unread.close()
    assert gateway.child.wait(timeout=DEADLINE) == 0


def test_whoever_says_again_that_it_is_to_stop_does_not_make_it_fail(start):
    gateway = start.gateway([start.scripted()])
    while gateway.child.poll() is None:
        gateway.child.send_signal(signal.SIGTERM)
    assert gateway.child.returncode == 0


def test_a_stream_that_a_drain_cuts_ends_whole(start):
    gateway = start.gateway([start.held()], "--drain-seconds", "0")
    with httpx.stream("POST", gateway.url + "/v1/completions", json=ENDLESS,
                      timeout=DEADLINE) as reply:
        lines = reply.iter_lines()
        next(lines)
        gateway.child.send_signal(signal.SIGTERM)
        events = [line for line in lines if line]
    assert "error" in json.loads(events[-2].removeprefix("data: "))
    assert events[-1] == "data: [DONE]"


def test_a_client_that_does_not_read_does_not_hold_up_the_end(start):
    worker = start.scripted("--step-ms", "1", "--max-context", "100000000")
    gateway = start.gateway([worker], "--drain-seconds", "0")
    slow = gateway.connect()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    send(slow, {**ENDLESS, "max_tokens": 10_000_000, "logprobs": 5})
    # The kernel's buffers are full: the output waits in the gateway.
    wait_until(lambda: gateway.metric("janus_gateway_memory_bytes") > 100_000, "unread output")
    gateway.child.send_signal(signal.SIGTERM)
    assert gateway.child.wait(timeout=DEADLINE) == 0
    slow.close()


@pytest.mark.skipif(not (BIN / "failing-calls.so").exists(),
                    reason="the sanitizers' runtimes must be loaded first")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_accepting_pauses_while_the_system_has_no_room(start, tmp_path, number):
    order = tmp_path / "errno"
    gateway = start.gateway([start.scripted()], env={
        "LD_PRELOAD": str(BIN / "failing-calls.so"), "FAILING_ACCEPT": str(order)})
    with httpx.Client(base_url=gateway.url, timeout=DEADLINE) as known:
        def failures():
            text = known.get("/metrics").text
            return int(text.split("\njanus_gateway_accept_errors_total ")[1].split()[0])

        assert failures() == 0
        began = time.monotonic()
        order.write_text(str(number))
        waiting = gateway.connect()  # into the listen queue
        waiting.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
        wait_until(lambda: failures() >= 3, "three failures")
        assert failures() <= 1 + (time.monotonic() - began) / 0.1, "one in 100 ms, it does not spin"
        order.unlink()
        assert waiting.recv(100).startswith(b"HTTP/1.1 200 OK")
        waiting.close()
    assert gateway.errors().count("cannot accept connections") == 1


def can_connect(gateway):
    try:
        gateway.connect().close()
        return True
    except OSError:
        return False
