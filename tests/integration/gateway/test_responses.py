"""Uses the Responses API of OpenAI's official client. At temperature 0 the scripted worker answers with the prompt."""

import json

import openai
import pytest

ECHO = "{{ messages[-1].content }}"
TOOLS = [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}]
CALL = '<tool_call>{"name": "add", "arguments": {"b": 1, "a": 2}}</tool_call>'
EMOJI = "naïve 🙂 👩‍👩‍👧 日本語"


def respond(gateway, content="Good morning.", **options):
    options.setdefault("temperature", 0)
    return gateway.client().responses.create(model="tiny", input=content, **options)


def streamed(gateway, content="Good morning.", **options):
    """The last response and all events."""
    events = list(respond(gateway, content, stream=True, **options))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events[-1].response, events


def items(response):
    """The output without what differs between two equal answers."""
    return [item.model_dump(exclude={"id", "call_id"}) for item in response.output]


def test_a_response_has_text_status_and_usage(shared):
    response = respond(shared, store=True, metadata={"a": "b"}, max_output_tokens=50)
    assert response.output_text == "Good morning."
    assert (response.object, response.status, response.model) == ("response", "completed", "tiny")
    assert response.error is None and response.incomplete_details is None
    usage = response.usage
    assert usage.input_tokens > 1 and usage.output_tokens > 1
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert (response.store, response.metadata) == (False, {"a": "b"})
    assert (response.max_output_tokens, response.temperature) == (50, 0)


@pytest.mark.parametrize("content", ["Good morning.", EMOJI])
def test_a_stream_is_the_response(shared, content):
    response, events = streamed(shared, content)
    whole = respond(shared, content)
    assert items(response) == items(whole) and response.output_text == content
    assert response.usage == whole.usage
    deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
    assert "".join(deltas) == content and len(deltas) > 1


def test_the_events_are_those_of_the_documentation(shared):
    got = shared.post({"model": "tiny", "input": "Good.", "temperature": 0, "stream": True},
                      "/v1/responses")
    events = [event.split("\n") for event in got.text.split("\n\n") if event]
    names = [name.removeprefix("event: ") for name, _ in events]
    assert [json.loads(d.removeprefix("data: "))["type"] for _, d in events] == names
    texts = names.count("response.output_text.delta")
    assert names == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", *["response.output_text.delta"] * texts,
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed"]


def test_the_client_puts_a_stream_together(shared):
    with shared.client().responses.stream(model="tiny", input="Good.", temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "Good."


def test_a_cut_response_is_incomplete(shared):
    for response in (respond(shared, max_output_tokens=3),
                     streamed(shared, max_output_tokens=3)[0]):
        assert response.status == "incomplete"
        assert response.incomplete_details.reason == "max_output_tokens"
        assert response.output[0].status == "incomplete"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_function_and_its_output(start, stream):
    gateway = start.templated(ECHO + "{# <tool_call> #}")
    get = (lambda *a, **k: streamed(*a, **k)[0]) if stream else respond
    response = get(gateway, "So: " + CALL, tools=TOOLS)
    message, call = response.output
    assert message.content[0].text == "So: " and response.status == "completed"
    assert (call.type, call.name, call.arguments) == ("function_call", "add", '{"b":1,"a":2}')
    history = [{"role": "user", "content": "Add."}, *response.output,
               {"type": "function_call_output", "call_id": call.call_id, "output": "It is 3."}]
    assert respond(gateway, history).output_text == "It is 3."
    if stream:
        done = [e for e in streamed(gateway, CALL, tools=TOOLS)[1]
                if e.type == "response.function_call_arguments.done"]
        assert done[0].arguments == call.arguments


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_an_item_of_its_own(start, stream):
    gateway = start.templated(ECHO, "--reasoning-parser", "think")
    get = (lambda *a, **k: streamed(*a, **k)[0]) if stream else respond
    response = get(gateway, "<think>hm, yes</think>\n\nSo.")
    reasoning, message = response.output
    assert (reasoning.type, reasoning.content[0].text) == ("reasoning", "hm, yes")
    assert response.output_text == "So."
    details = response.usage.output_tokens_details
    assert 0 < details.reasoning_tokens < response.usage.output_tokens
    assert respond(gateway, [{"role": "user", "content": "x"}, *response.output,
                             {"role": "user", "content": "And?"}]).output_text == "And?"


def test_logprobs_are_those_of_the_text(shared):
    ask = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    response, events = streamed(shared, "🙂a", **ask)
    whole = respond(shared, "🙂a", **ask).output[0].content[0].logprobs
    assert bytes(b for one in whole for b in one.bytes).decode() == "🙂a"
    for one in whole:
        assert [top.logprob for top in one.top_logprobs] == pytest.approx([-0.25, -1.25])
        assert one.logprob == pytest.approx(-0.25)
    assert response.output[0].content[0].logprobs == whole and response.top_logprobs == 2
    deltas = [one for e in events if e.type == "response.output_text.delta" for one in e.logprobs]
    assert [(one.token, one.logprob) for one in deltas] == [(one.token, one.logprob) for one in whole]
    assert respond(shared, "🙂a").output[0].content[0].logprobs == []


def test_instructions_are_the_system_message(start):
    gateway = start.templated("{{ messages[0].role }}:{{ messages[0].content }}")
    assert respond(gateway, instructions="Be brief.").output_text == "system:Be brief."


@pytest.mark.parametrize("options, param, said", [
    ({"previous_response_id": "resp_1"}, "previous_response_id", "send the earlier items"),
    ({"background": True}, "background", "stream"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
    ({"reasoning": {"effort": "low"}}, "reasoning.effort", "leave it out"),
    ({"max_output_tokens": 10**6}, "max_output_tokens", "Please lower 'max_output_tokens'"),
    ({"input": "a b " * 2000}, "input", "Please shorten"),
])
def test_what_is_not_carried_out_is_refused_by_name(shared, options, param, said):
    with pytest.raises(openai.BadRequestError, match=said) as error:
        shared.client().responses.create(**{"model": "tiny", "input": "x", **options})
    assert error.value.param == param


def test_an_error_in_mid_stream_is_a_failed_response(start):
    gateway = start.gateway([start.scripted("--error-after", "2")])
    response, events = streamed(gateway)
    assert events[-1].type == "response.failed"
    assert response.status == "failed" and response.error.code == "server_error"
