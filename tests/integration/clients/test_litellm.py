"""Uses LiteLLM with its routes to OpenAI's, vLLM's and Anthropic's APIs."""

import json
import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise the import downloads prices
litellm = pytest.importorskip("litellm")
litellm.suppress_debug_info = True

from asked import CITIES, FORMAT, TOOLS, Person, check_call  # noqa: E402
from serving import DEADLINE  # noqa: E402

PROVIDERS = ["openai", "hosted_vllm"]
MESSAGES = [{"role": "user", "content": "Good morning, sir."}]


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return request.param


def options_of(service, provider, options):
    options.setdefault("max_tokens", 24)
    return {"model": f"{provider}/golden", "api_base": service.url + "/v1", "api_key": "none",
            "timeout": DEADLINE, "max_retries": 0, **options}


def chat(service, provider="openai", messages=MESSAGES, **options):
    return litellm.completion(messages=messages, **options_of(service, provider, options))


def complete(service, prompt="It is a truth", **options):
    return litellm.text_completion(prompt=prompt, **options_of(service, "text-completion-openai", options))


def test_a_stream_is_the_answer(service, provider):
    answer = chat(service, provider, temperature=0)
    text = answer.choices[0].message.content
    assert text and answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 24
    chunks = list(chat(service, provider, temperature=0, stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    assert whole.choices[0].message.content == text and whole.choices[0].finish_reason == "length"
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (
        answer.usage.prompt_tokens, answer.usage.completion_tokens)


def test_text_answers_and_streams_the_same(service):
    answer = complete(service, temperature=0, logprobs=2)
    assert len(answer.choices[0].logprobs.tokens) == answer.usage.completion_tokens == 24
    chunks = complete(service, temperature=0, stream=True)
    assert "".join(c.choices[0].text or "" for c in chunks) == answer.choices[0].text
    echoed = complete(service, temperature=0, echo=True).choices[0].text
    assert echoed == "It is a truth" + answer.choices[0].text


def test_several_answers_have_logprobs(service, provider):
    answer = chat(service, provider, n=3, seed=7, temperature=1, logprobs=True, top_logprobs=2,
                  extra_body={"ignore_eos": True})
    assert len({c.message.content for c in answer.choices}) == 3
    for choice in answer.choices:
        content = choice.logprobs.content
        assert len(content) == 24 and all(len(one.top_logprobs) == 2 for one in content)
    again = chat(service, provider, seed=8, temperature=1, extra_body={"ignore_eos": True})
    assert again.choices[0].message.content == answer.choices[1].message.content


def test_sampling_parameters_have_their_effect(service, provider):
    plain = chat(service, provider, temperature=0).choices[0].message.content
    assert chat(service, provider, temperature=0, frequency_penalty=2, presence_penalty=2,
                max_tokens=60).choices[0].message.content[:len(plain)] != plain
    stop = plain[5:9]
    cut = chat(service, provider, temperature=0, stop=[stop]).choices[0]
    assert (cut.message.content, cut.finish_reason) == (plain[:plain.index(stop)], "stop")
    assert chat(service, provider, temperature=1, top_p=1e-9, seed=1).choices[0].message.content == plain
    # What OpenAI does not have goes through extra_body.
    assert chat(service, provider, temperature=1, seed=1,
                extra_body={"top_k": 1, "min_p": 0.1}).choices[0].message.content == plain
    first = chat(service, provider, temperature=0, logit_bias={"300": 100}, max_tokens=2, logprobs=True)
    tokens = [one.token for one in first.choices[0].logprobs.content]
    assert tokens[0] == tokens[1]


def test_tools_may_be_left_alone(service, provider):
    free = chat(service, provider, tools=TOOLS, tool_choice="auto", temperature=0)
    assert free.choices[0].message.content and not free.choices[0].message.tool_calls


# The route to vLLM takes additionalProperties out of schemas, so that a call need not end.
def test_tools(service):
    named = {"type": "function", "function": {"name": "traffic"}}
    for choice, names in (("required", {"weather", "traffic"}), (named, {"traffic"})):
        for parallel in (True, False):
            answer = chat(service, tools=TOOLS, tool_choice=choice, seed=7, max_tokens=400,
                          parallel_tool_calls=parallel).choices[0]
            assert parallel or (answer.finish_reason, len(answer.message.tool_calls)) == ("tool_calls", 1)
            for call in answer.message.tool_calls:
                check_call(call.function.name, json.loads(call.function.arguments), names)


def test_a_streamed_call_and_its_result(service):
    ask = {"tools": TOOLS, "tool_choice": "required", "seed": 7, "max_tokens": 400,
           "parallel_tool_calls": False}
    whole = chat(service, **ask).choices[0].message
    chunks = list(chat(service, stream=True, **ask))
    streamed = litellm.stream_chunk_builder(chunks).choices[0]
    assert streamed.finish_reason == "tool_calls"
    [call], [same] = streamed.message.tool_calls, whole.tool_calls
    assert (call.function.name, call.function.arguments) == (same.function.name, same.function.arguments)
    history = [*MESSAGES, streamed.message, {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    assert chat(service, messages=history, tools=TOOLS).choices[0].message.content


def test_structured_answers(service, provider):
    for form in (FORMAT, {"type": "json_object"}):
        answer = chat(service, provider, response_format=form, seed=3, temperature=1, max_tokens=400).choices[0]
        if form is FORMAT:
            Person.model_validate_json(answer.message.content)
        elif answer.finish_reason == "stop":
            assert isinstance(json.loads(answer.message.content), dict)
    choice = chat(service, provider, extra_body={"structured_outputs": {"choice": list(CITIES)}}).choices[0]
    assert choice.message.content in CITIES


def test_messages_and_responses(service):
    # The route to Anthropic's API, and OpenAI's newer one.
    options = {"api_key": "none", "timeout": DEADLINE, "max_retries": 0, "temperature": 0}
    message = litellm.completion(model="anthropic/golden", api_base=service.url, messages=MESSAGES,
                                 max_tokens=24, **options)
    plain = chat(service, temperature=0).choices[0].message.content
    assert message.choices[0].message.content == plain
    call = litellm.completion(model="anthropic/golden", api_base=service.url, messages=MESSAGES, tools=TOOLS,
                              tool_choice="required", max_tokens=400, **options)
    for one in call.choices[0].message.tool_calls:
        check_call(one.function.name, json.loads(one.function.arguments), {"weather", "traffic"})
    response = litellm.responses(model="openai/golden", api_base=service.url + "/v1", input="Good morning, sir.",
                                 max_output_tokens=24, **options)
    assert response.output[0].content[0].text == plain
    assert response.usage.output_tokens == 24


def test_errors_have_the_librarys_types(service, provider):
    with pytest.raises(litellm.ContextWindowExceededError):
        chat(service, provider, messages=[{"role": "user", "content": "x " * 3000}])
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        chat(service, provider, temperature=9)
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=MESSAGES, **{**options_of(service, provider, {}), "model": f"{provider}/gpt-9"})
