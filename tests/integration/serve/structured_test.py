"""Answers that must follow a grammar, and calls of tools, from the official client to real workers."""

import concurrent.futures
import json
import os
import re
import signal
import threading

import openai
import pytest

from serving import DEADLINE, Service, copy_demo

SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
    "properties": {"name": {"type": "string", "maxLength": 12},
                   "age": {"type": "integer", "minimum": 0, "maximum": 120},
                   "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "additionalProperties": False, "required": ["city"],
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}}
    for name in ("weather", "traffic")]
# The demo model's own template, with the markers of Qwen's calls.
CALLS = "{# <tool_call> #}"


def copy_with_tools(folder):
    copy_demo(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["chat_template"] = CALLS + config["chat_template"]
    path.write_text(json.dumps(config))


@pytest.fixture(scope="module")
def service():
    run = Service()
    run.open(copy_with_tools)
    try:
        run.start_serving("--attention", "2", "--experts", "2")
        yield run
        run.stop()
    finally:
        run.close()


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=service.url + "/v1", api_key="none", max_retries=0, timeout=DEADLINE)


def chat(client, **options):
    options.setdefault("max_tokens", 400)
    return client.chat.completions.create(
        model="golden", messages=[{"role": "user", "content": "Good morning, sir."}], **options)


def check_person(text):
    person = json.loads(text)
    assert set(person) == {"name", "age", "tags"}, text
    assert len(person["name"]) <= 12 and 0 <= person["age"] <= 120, text
    assert len(person["tags"]) <= 2 and set(person["tags"]) <= {"a", "b"}, text


def test_an_answer_fits_its_schema_and_ends_there(client):
    answer = chat(client, n=8, seed=1, temperature=1.0, response_format=FORMAT)
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        check_person(choice.message.content)
    assert len({c.message.content for c in answer.choices}) > 1
    # Without an end of the model's own, the grammar alone ends the answer.
    alone = chat(client, seed=1, temperature=1.0, response_format=FORMAT, extra_body={"ignore_eos": True})
    assert alone.choices[0].finish_reason == "stop"
    check_person(alone.choices[0].message.content)


def test_a_stream_is_the_same_answer(client):
    whole = chat(client, seed=3, temperature=1.0, response_format=FORMAT).choices[0].message.content
    chunks = list(chat(client, seed=3, temperature=1.0, response_format=FORMAT, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("form, pattern", [
    ({"structured_outputs": {"regex": "[ab]{3}-[0-9]+;"}}, "[ab]{3}-[0-9]+;"),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
    ({"guided_choice": ["yes", "no"]}, "yes|no"),
    ({"structured_outputs": {"grammar": 'root ::= word ("+" word){2}\nword ::= [xyz]{2}'}},
     r"[xyz]{2}(\+[xyz]{2}){2}"),
    ({"structured_outputs": {"grammar": 'start: "a" /[0-9]{2}/'}}, "a[0-9]{2}"),
])
def test_other_forms(client, form, pattern):
    for seed in range(4):
        answer = client.completions.create(model="golden", prompt="It is", max_tokens=200, seed=seed,
                                           temperature=1.0, extra_body=form).choices[0]
        assert answer.finish_reason == "stop" and re.fullmatch(pattern, answer.text), answer.text


def test_json_mode_gives_an_object(client):
    answer = chat(client, seed=5, temperature=0.8, response_format={"type": "json_object"}).choices[0]
    if answer.finish_reason == "stop":
        assert isinstance(json.loads(answer.message.content), dict)
    else:  # the demo model may go on for long
        assert answer.message.content.lstrip().startswith("{")


def test_a_forced_call_is_a_call_that_fits(client):
    named = {"type": "function", "function": {"name": "traffic"}}
    for choice, allowed in (("required", {"weather", "traffic"}), (named, {"traffic"})):
        answer = chat(client, n=4, seed=7, temperature=1.0, tools=TOOLS, tool_choice=choice,
                      parallel_tool_calls=False)
        for one in answer.choices:
            assert one.finish_reason == "tool_calls" and one.message.content is None
            [call] = one.message.tool_calls
            arguments = json.loads(call.function.arguments)
            assert call.function.name in allowed and arguments["city"] in ("Rome", "Oslo")
            assert set(arguments) <= {"city", "days"} and 1 <= arguments.get("days", 1) <= 9
    chunks = list(chat(client, seed=7, temperature=1.0, tools=TOOLS, tool_choice=named, stream=True))
    streamed = [c for chunk in chunks for c in chunk.choices[0].delta.tool_calls or []]
    assert [c.function.name for c in streamed] == ["traffic"]


@pytest.mark.parametrize("options, param", [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "sphere"}}}},
     "response_format.json_schema.schema"),
    ({"extra_body": {"structured_outputs": {"regex": "(["}}}, "structured_outputs.regex"),
    ({"extra_body": {"guided_grammar": "start: missing"}}, "guided_grammar"),
    ({"extra_body": {"guided_json": {"enum": ["x" * 200_000]}}}, "guided_json"),
])
def test_what_cannot_be_followed_is_refused_with_the_reason(client, options, param):
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, **options)
    assert error.value.param == param and len(error.value.message) > 40


def test_other_requests_keep_their_bits_beside_constrained_ones(client):
    def plain(seed):
        return chat(client, seed=seed, temperature=0.9, max_tokens=48).choices[0].message.content

    alone = [plain(seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        constrained = [pool.submit(chat, client, seed=s, temperature=1.0, response_format=FORMAT) for s in range(4)]
        assert [f.result() for f in [pool.submit(plain, seed) for seed in range(4)]] == alone
        for one in constrained:
            check_person(one.result().choices[0].message.content)


def test_answers_go_on_at_another_instance(client, service):
    """An instance that has answers is killed: the other rebuilds the grammars' state from the tokens."""
    schema = {"type": "array", "items": {"enum": ["left", "right", 7]}, "minItems": 150, "maxItems": 150}
    asked = [{"seed": seed, "temperature": 1.0, "max_tokens": 1900,
              "extra_body": {"guided_json": schema}} for seed in range(4)]
    whole = [chat(client, **ask).choices[0].message.content for ask in asked]
    assert [len(json.loads(text)) for text in whole] == [150] * 4
    begun, killed = threading.Barrier(5), threading.Event()

    def stream(ask):
        text = ""
        for chunk in chat(client, stream=True, **ask):
            text += chunk.choices[0].delta.content or ""
            if len(text) > 40 and not killed.is_set():
                begun.wait(DEADLINE)
                assert killed.wait(DEADLINE)
        return text

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        streams = [pool.submit(stream, ask) for ask in asked]
        begun.wait(DEADLINE)
        os.kill(service.pid_of("attention-1"), signal.SIGKILL)
        killed.set()
        assert [one.result() for one in streams] == whole
