"""The official clients for Node against the gateway. scripts/deps installs them where npm is there."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import DEADLINE, Starter

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "janus"
CLIENTS = CACHE / "test-node"

pytestmark = pytest.mark.skipif(
    not (CLIENTS / "node_modules").is_dir() or shutil.which("node") is None,
    reason="the clients for Node are not installed: install npm, then run scripts/deps test")


@pytest.fixture(scope="module")
def got(model):
    starter = Starter(model)
    try:
        gateway = starter.templated("{{ messages[-1].content }}{# <tool_call> #}")
        done = subprocess.run(
            ["node", pathlib.Path(__file__).with_name("node_clients.mjs"), gateway.url],
            env={**os.environ, "JANUS_NODE_CLIENTS": str(CLIENTS)}, capture_output=True, text=True,
            timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout)
    finally:
        starter.stop()


def test_chat(got):
    assert got["chat"] == "Good."


def test_messages(got):
    message = got["message"]
    assert message["content"] == [{"type": "text", "text": "Good."}]
    assert message["stop_reason"] == "end_turn"
    usage = message["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == got["count"]
    text, call = got["streamed"]["content"]
    assert text["text"] == "So: " and (call["name"], call["input"]) == ("add", {"a": 1})
    assert got["streamed"]["stop_reason"] == "tool_use"
    assert got["refused"] == {"status": 404, "name": "NotFoundError", "type": "not_found_error"}


def test_responses(got):
    assert got["response"] == got["helped"] == "Good."
    assert got["last"]["type"] == "response.completed"
    message, call = got["last"]["response"]["output"]
    assert message["content"][0]["text"] == "So: "
    assert (call["name"], call["arguments"]) == ("add", '{"a":1}')
    assert got["forgotten"] == {
        "status": 400, "name": "BadRequestError", "type": "unsupported_parameter"}
