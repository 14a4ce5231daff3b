"""Many open streams at once: no error, no further thread, and the memory per stream.

300 streams in the usual run, 2,000 with JANUS_SOAK=1. Prints the figures (pytest -s)."""

import asyncio
import json
import os
import pathlib
import resource

from conftest import wait_until

SOAK = os.environ.get("JANUS_SOAK") == "1"
STREAMS = 2000 if SOAK else 300
TOKENS = 40
STEP_MS = 50
# Sanitizers keep freed memory and need shadow memory for the rest.
SANITIZED = os.environ.get("JANUS_SANITIZE", "") != ""


def process_status(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise AssertionError(field)


async def one_stream(port, begun, errors):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"model": "tiny", "prompt": "It is a truth", "temperature": 0,
                       "max_tokens": TOKENS, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}}).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                 % len(body) + body)
    said = await reader.readuntil(b"data: ")
    begun.append(1)
    while b"data: [DONE]\n\n" not in said[-40:]:
        got = await reader.read(65536)
        if not got:
            break
        said += got
    writer.close()
    whole = b'"completion_tokens":%d,' % TOKENS in said and b'"length"' in said
    if not said.startswith(b"HTTP/1.1 200 OK") or not whole:
        errors.append(said[-300:])


async def all_streams(gateway, workers, figures):
    begun, errors = [], []
    tasks = [asyncio.create_task(one_stream(gateway.port, begun, errors)) for _ in range(STREAMS)]
    while len(begun) < STREAMS and not all(t.done() for t in tasks):
        await asyncio.sleep(0.01)
    figures["open"] = await asyncio.to_thread(gateway.metric, "janus_gateway_open_streams")
    figures["threads"] = process_status(gateway.child.pid, "Threads")
    figures["kb"] = process_status(gateway.child.pid, "VmRSS")
    for worker in workers:
        worker.release()
    await asyncio.gather(*tasks)
    return errors


def test_all_streams_are_open_at_once_and_end_well(start, capsys):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * STREAMS)), hard))
    workers = [start.held("--quiet", "--step-ms", str(STEP_MS)) for _ in range(2)]
    gateway = start.gateway(workers)
    # Everything that starts lazily has started.
    assert gateway.post({"model": "tiny", "prompt": "a", "max_tokens": 1}).status_code == 200
    threads = process_status(gateway.child.pid, "Threads")
    kb = process_status(gateway.child.pid, "VmRSS")
    figures = {}
    errors = asyncio.run(all_streams(gateway, workers, figures))
    with capsys.disabled():
        print(f"\n{STREAMS} streams: {len(errors)} errors, {threads} -> {figures['threads']} "
              f"threads, {(figures['kb'] - kb) / STREAMS:.1f} KiB per stream")
    assert errors == []
    assert figures["open"] == STREAMS
    # No thread per stream. gRPC's own pool may add one when it is busy, whatever the number of
    # streams.
    assert figures["threads"] <= threads + 2
    assert SANITIZED or (figures["kb"] - kb) / STREAMS < 64
    wait_until(lambda: gateway.metric("janus_gateway_open_streams") == 0, "the streams' end")
    assert gateway.metric("vllm:generation_tokens_total") == STREAMS * TOKENS + 1
