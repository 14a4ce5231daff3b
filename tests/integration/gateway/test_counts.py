"""What a gateway reports of its requests to instances, which scaling decisions rest on."""

import pytest

from conftest import wait_until
from test_loss_and_limits import begin, send

REQUEST = {"model": "tiny", "prompt": "abc", "temperature": 0, "max_tokens": 4, "ignore_eos": True}


def comes_to(worker, **wanted):
    """The newest report that the worker got, once it has these values."""
    def newest():
        report = worker.events("counts")[-1]
        return all(report[name] == value for name, value in wanted.items()) and report
    try:
        return wait_until(newest, wanted)
    except AssertionError as late:
        raise AssertionError(f"{late}; the newest is {worker.events('counts')[-1]}") from late


def test_each_request_is_counted_by_what_becomes_of_it(start):
    worker = start.held("--max-requests", "1")
    gateway = start.gateway([worker], "--queued-requests", "1")
    worker.wait_for("counts")
    comes_to(worker, arrived=0, finished=0)
    running = begin(gateway)
    waits = gateway.connect()
    send(waits, REQUEST)
    wait_until(lambda: gateway.metric("vllm:num_requests_waiting") == 1, "the queue")
    assert comes_to(worker, arrived=2, waiting=1)["refused"] == 0
    assert gateway.post(REQUEST).status_code == 429
    comes_to(worker, arrived=3, refused=1)
    assert gateway.post({**REQUEST, "temperature": -1}).status_code == 400
    running.close()  # the client left: the service did not end it
    worker.wait_for("submit", 2)
    worker.release()
    assert waits.recv(4096).startswith(b"HTTP/1.1 200 OK")
    waits.close()
    report = comes_to(worker, arrived=3, refused=1, finished=1, waiting=0)
    assert report["failed"] == report["unread"] == 0
    assert report["output_tokens"] == 4
    assert report["prompt_tokens"] % 3 == 0 and report["prompt_tokens"] > 0
    ended = {how: gateway.metric('janus_gateway_requests_ended_total{how="%s"}' % how)
             for how in ("finished", "failed", "refused")}
    assert ended == {"finished": 1, "failed": 0, "refused": 1}


def test_each_answer_of_a_call_counts(start):
    workers = [start.scripted(), start.scripted()]
    gateway = start.gateway(workers)
    assert gateway.post({**REQUEST, "prompt": ["abc", "def"], "n": 3}).status_code == 200
    for worker in workers:  # each gets the whole report
        comes_to(worker, arrived=6, finished=6, output_tokens=24)


def test_calls_refused_before_they_are_read_are_demand_too(start):
    worker = start.held()
    gateway = start.gateway([worker], "--open-streams", "1")
    running = begin(gateway)
    assert gateway.post(REQUEST).status_code == 429
    comes_to(worker, arrived=1, unread=1, refused=0)
    running.close()


@pytest.mark.parametrize("flags, counted", [
    (("--error-after", "0", "--error-code", "13"), {"failed": 1}),
    (("--error-after", "0", "--error-code", "14"), {"refused": 1}),
    (("--error-after", "2", "--error-code", "8"), {"failed": 1}),  # it had begun
    (("--error-after", "0", "--error-code", "3"), {}),  # the client's own error
])
def test_errors_are_counted_by_whose_they_are(start, flags, counted):
    worker = start.scripted(*flags)
    gateway = start.gateway([worker])
    assert gateway.post(REQUEST).status_code >= 400
    report = comes_to(worker, arrived=1, finished=0, **counted)
    assert report["failed"] + report["refused"] == sum(counted.values())
