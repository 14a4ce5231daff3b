"""Uses Anthropic's official client. At temperature 0 the scripted worker answers with the prompt."""

import json

import anthropic
import httpx
import pytest

from conftest import DEADLINE

ECHO = "{{ messages[-1].content }}"
TOOLS = [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}]
CALL = '<tool_call>{"name": "add", "arguments": {"b": 1, "a": 2}}</tool_call>'
EMOJI = "naïve 🙂 👩‍👩‍👧 日本語"


def client(gateway, key="none", **options):
    return anthropic.Anthropic(base_url=gateway.url, api_key=key, max_retries=0, timeout=DEADLINE,
                               **options)


def asked(content="Good morning.", extra_body=(), **options):
    options.setdefault("max_tokens", 200)
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **options,
            "extra_body": {"temperature": 0, **dict(extra_body)}}


def streamed_body():
    options = asked(stream=True)
    options.update(options.pop("extra_body"))
    return options


def sent(gateway, content="Good morning.", **options):
    return client(gateway).messages.create(**asked(content, **options))


def streamed(gateway, content="Good morning.", **options):
    """The message that the client puts together, and the events."""
    with client(gateway).messages.stream(**asked(content, **options)) as stream:
        events = [event for event in stream]
        return stream.get_final_message(), events


def parts(message):
    return [block.model_dump(exclude={"citations", "parsed_output"}) for block in message.content]


def test_a_message_has_text_reason_and_usage(shared):
    message = sent(shared)
    assert (message.type, message.role, message.model) == ("message", "assistant", "tiny")
    assert [(block.type, block.text) for block in message.content] == [("text", "Good morning.")]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    count = client(shared).messages.count_tokens(
        model="tiny", messages=[{"role": "user", "content": "Good morning."}])
    usage = message.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == count.input_tokens
    assert usage.output_tokens > 1
    assert message._request_id.startswith("req-")


@pytest.mark.parametrize("content", ["Good morning.", EMOJI])
def test_a_stream_is_the_message(shared, content):
    message, events = streamed(shared, content)
    whole = sent(shared, content)
    assert parts(message) == parts(whole) and message.content[0].text == content
    assert message.stop_reason == whole.stop_reason
    assert message.usage.output_tokens == whole.usage.output_tokens
    assert sum(event.type == "text" for event in events) > 1


def test_the_events_are_those_of_the_documentation(shared):
    got = shared.post(streamed_body(), "/v1/messages")
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event.split("\n") for event in got.text.split("\n\n") if event]
    names = [name.removeprefix("event: ") for name, _ in events]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert [one["type"] for one in data] == names
    texts = names.count("content_block_delta")
    assert names == ["message_start", "content_block_start", *["content_block_delta"] * texts,
                     "content_block_stop", "message_delta", "message_stop"]


def test_why_a_message_ended(shared):
    assert sent(shared, max_tokens=3).stop_reason == "max_tokens"
    for message in (sent(shared, stop_sequences=["zz", "mor"]),
                    streamed(shared, stop_sequences=["zz", "mor"])[0]):
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "mor")
        assert message.content[0].text == "Good "


def test_a_limit_beyond_the_context_is_the_context(start):
    gateway = start.gateway([start.scripted()])
    message = sent(gateway, max_tokens=100_000, extra_body={"ignore_eos": True})
    assert message.stop_reason == "model_context_window_exceeded"
    usage = message.usage
    assert usage.input_tokens + usage.output_tokens == 1024


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_tool_and_its_result(start, stream):
    gateway = start.templated(ECHO + "{# <tool_call> #}")
    get = (lambda *a, **k: streamed(*a, **k)[0]) if stream else sent
    message = get(gateway, "So: " + CALL + "\n" + CALL, tools=TOOLS)
    assert message.stop_reason == "tool_use"
    assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
    assert message.content[0].text == "So: "
    call = message.content[1]
    assert (call.name, call.input) == ("add", {"b": 1, "a": 2})
    assert call.id != message.content[2].id
    history = {**asked("Add."), "tools": TOOLS, "messages": [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": "It is 3."}]}]}
    assert client(gateway).messages.create(**history).content[0].text == "It is 3."
    one = get(gateway, CALL + CALL, tools=TOOLS,
              tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert [block.type for block in one.content] == ["tool_use"]
    none = get(gateway, CALL, tools=TOOLS, tool_choice={"type": "none"})
    assert [block.type for block in none.content] == ["text"]


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_is_a_block_of_its_own(start, stream):
    gateway = start.templated(ECHO, "--reasoning-parser", "think")
    get = (lambda *a, **k: streamed(*a, **k)[0]) if stream else sent
    message = get(gateway, "<think>hm, yes</think>\n\nSo.")
    thinking, text = message.content
    assert (thinking.type, thinking.thinking, text.text) == ("thinking", "hm, yes", "So.")
    assert thinking.signature == message.id
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    again = client(gateway).messages.create(**{**asked(), "messages": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": message.content},
        {"role": "user", "content": "And?"}]})
    assert again.content[0].text == "And?"


def test_thinking_follows_the_switch_of_the_template(start):
    gateway = start.templated("{{ enable_thinking }}")

    def switch(**options):
        return sent(gateway, **options).content[0].text.lower()

    assert switch() == "false"
    assert switch(thinking={"type": "enabled", "budget_tokens": 1024}) == "true"
    assert switch(thinking={"type": "disabled"}) == "false"
    assert switch(extra_body={"chat_template_kwargs": {"enable_thinking": True}}) == "true"


def test_system_text_and_blocks_reach_the_template(start):
    gateway = start.templated("{{ messages[0].role }}:{{ messages[0].content }}")
    blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
              {"type": "text", "text": "b"}]
    assert sent(gateway, system="Be brief.").content[0].text == "system:Be brief."
    assert sent(gateway, system=blocks).content[0].text == "system:a\nb"


def test_errors_are_those_that_the_client_knows(start):
    keys = start.folder / "keys"
    keys.write_text("secret\n")
    gateway = start.gateway([start.scripted()], "--api-keys-file", keys, "--request-bytes", "1000")

    def error(kind, type, status, call):
        with pytest.raises(kind) as got:
            call()
        assert got.value.status_code == status
        assert got.value.body["type"] == "error"
        assert got.value.body["error"]["type"] == type
        return got.value.body["error"]["message"]

    def ask(key="secret", **options):
        return lambda: client(gateway, key).messages.create(**{**asked(), **options})

    assert ask()().content[0].text == "Good morning."
    bearer = anthropic.Anthropic(base_url=gateway.url, auth_token="secret", max_retries=0)
    assert bearer.messages.create(**asked()).content[0].text == "Good morning."
    error(anthropic.AuthenticationError, "authentication_error", 401, ask("other"))
    assert "tiny" in error(anthropic.NotFoundError, "not_found_error", 404, ask(model="claude-9"))
    image = [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "AA=="}}]}]
    said = error(anthropic.BadRequestError, "invalid_request_error", 400, ask(messages=image))
    assert "'image'" in said
    error(anthropic.ContentTooLargeError, "request_too_large", 413, ask(system="x" * 2000))
    large = [{"role": "user", "content": "x " * 450}]
    with pytest.raises(anthropic.BadRequestError, match="maximum context length"):
        client(start.gateway([start.scripted("--max-context", "64")])).messages.create(
            **{**asked(), "messages": large})


def test_overload_is_an_error_that_the_client_retries(start):
    full = start.gateway([start.scripted("--max-requests", "0")], "--queued-requests", "0")
    with pytest.raises(anthropic.RateLimitError) as error:
        sent(full)
    assert error.value.body["error"]["type"] == "rate_limit_error"
    assert int(error.value.response.headers["retry-after"]) >= 1
    empty = start.gateway([f"unix:{start.folder}/nobody.sock"], attached=0)
    with pytest.raises(anthropic.OverloadedError) as error:
        sent(empty)
    assert error.value.status_code == 529
    assert error.value.body["error"]["type"] == "overloaded_error"


def test_an_error_in_mid_stream_is_raised(start):
    gateway = start.gateway([start.scripted("--error-after", "2")])
    with pytest.raises(anthropic.APIStatusError) as error:
        streamed(gateway)
    assert error.value.body["error"]["type"] == "api_error"


def test_a_silent_stream_pings(start):
    worker = start.held()
    gateway = start.gateway([worker], "--comment-seconds", "1")
    got = []
    with httpx.stream("POST", gateway.url + "/v1/messages", json=streamed_body(),
                      timeout=DEADLINE) as response:
        for line in response.iter_lines():
            got.append(line)
            if line == 'data: {"type":"ping"}':
                worker.release()
    assert got[got.index("event: ping") + 1] == 'data: {"type":"ping"}'
    assert got[0] == "event: message_start"
    assert "event: message_stop" in got
