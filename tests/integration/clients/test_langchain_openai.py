"""Uses LangChain's package for OpenAI: ChatOpenAI, with the chat and the Responses API, and OpenAI."""

import asyncio
import os

import openai
import pytest

os.environ["LANGSMITH_TRACING"] = "false"
langchain_openai = pytest.importorskip("langchain_openai")

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage  # noqa: E402

from asked import CITIES, SCHEMA, TOOLS, Person, check_call  # noqa: E402
from serving import DEADLINE  # noqa: E402

ASKED = "Good morning, sir."


def chat_model(service, **options):
    options.setdefault("max_tokens", 24)
    if options.get("use_responses_api") and "seed" in options:  # the Responses API has no such parameter
        options["extra_body"] = {"seed": options.pop("seed")}
    return langchain_openai.ChatOpenAI(model="golden", base_url=service.url + "/v1", api_key="none", max_retries=0,
                                       timeout=DEADLINE, **options)


def added(chunks):
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


@pytest.mark.parametrize("use_responses_api", [False, True])
def test_a_stream_is_the_answer(service, use_responses_api):
    model = chat_model(service, temperature=0, stream_usage=True, use_responses_api=use_responses_api)
    answer = model.invoke([SystemMessage("Be brief."), HumanMessage(ASKED)])
    assert answer.text
    assert answer.usage_metadata["output_tokens"] == 24
    whole = added(model.stream([SystemMessage("Be brief."), HumanMessage(ASKED)]))
    assert whole.text == answer.text
    assert whole.usage_metadata["output_tokens"] == answer.usage_metadata["output_tokens"]
    assert whole.usage_metadata["input_tokens"] == answer.usage_metadata["input_tokens"]


def test_several_tasks_ask_at_once(service):
    model = chat_model(service, temperature=0)

    async def both():
        return await asyncio.gather(*(model.ainvoke(prompt) for prompt in ("She was", "He had")))

    assert [a.text for a in asyncio.run(both())] == [model.invoke(prompt).text for prompt in ("She was", "He had")]


def test_prompts_in_a_batch_are_answered_as_if_alone(service):
    model = chat_model(service, temperature=0)
    prompts = ["She was", "He had never", "The house stood"]
    assert [a.text for a in model.batch(prompts)] == [model.invoke(p).text for p in prompts]


def test_several_answers_have_logprobs(service):
    model = chat_model(service, n=3, seed=7, temperature=1, logprobs=True, top_logprobs=2,
                       extra_body={"ignore_eos": True})
    answers = model.generate([[HumanMessage(ASKED)]]).generations[0]
    assert len({a.text for a in answers}) == 3
    for answer in answers:
        content = answer.message.response_metadata["logprobs"]["content"]
        assert len(content) == 24 and all(len(one["top_logprobs"]) == 2 for one in content)
    whole = added(chat_model(service, temperature=0, logprobs=True).stream(ASKED))
    assert "".join(one["token"] for one in whole.response_metadata["logprobs"]["content"]).startswith(whole.text)


def test_sampling_parameters_have_their_effect(service):
    plain = chat_model(service, temperature=0).invoke(ASKED).text
    other = chat_model(service, temperature=0, frequency_penalty=2, presence_penalty=2, max_tokens=60).invoke(ASKED).text
    assert other[:len(plain)] != plain
    stop = plain[5:9]
    cut = chat_model(service, temperature=0, stop=[stop]).invoke(ASKED)
    assert cut.text == plain[:plain.index(stop)] and cut.response_metadata["finish_reason"] == "stop"
    greedy = chat_model(service, temperature=1, seed=1, extra_body={"top_k": 1, "min_p": 0.1})
    assert greedy.invoke(ASKED).text == plain
    biased = chat_model(service, temperature=0, logit_bias={300: 100}, max_tokens=2, logprobs=True).invoke(ASKED)
    first, second = biased.response_metadata["logprobs"]["content"]
    assert first["token"] == second["token"]


@pytest.mark.parametrize("use_responses_api", [False, True])
def test_tools(service, use_responses_api):
    model = chat_model(service, max_tokens=400, seed=7, use_responses_api=use_responses_api)
    free = model.bind_tools(TOOLS, tool_choice="auto").invoke(ASKED, temperature=0)
    assert free.text and not free.tool_calls
    for choice, names in (("required", {"weather", "traffic"}), ("any", {"weather", "traffic"}),
                          ("traffic", {"traffic"})):
        bound = model.bind_tools(TOOLS, tool_choice=choice, parallel_tool_calls=False)
        [call] = bound.invoke(ASKED).tool_calls
        check_call(call["name"], call["args"], names)
        [streamed] = added(bound.stream(ASKED)).tool_calls
        assert (streamed["name"], streamed["args"]) == (call["name"], call["args"])


@pytest.mark.parametrize("use_responses_api", [False, True])
def test_the_result_of_a_call_is_read(service, use_responses_api):
    model = chat_model(service, max_tokens=400, seed=7, use_responses_api=use_responses_api).bind_tools(TOOLS)
    asked = HumanMessage(ASKED)
    called = model.bind(tool_choice="required").invoke([asked])
    results = [ToolMessage("Rain.", tool_call_id=call["id"]) for call in called.tool_calls]
    assert isinstance(model.invoke([asked, called, *results], temperature=0, max_tokens=24), AIMessage)


@pytest.mark.parametrize("use_responses_api", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_answers(service, method, use_responses_api):
    model = chat_model(service, max_tokens=400, temperature=1, seed=3, use_responses_api=use_responses_api)
    assert isinstance(model.with_structured_output(Person, method=method).invoke(ASKED), Person)
    answer = model.with_structured_output({"title": "person", **SCHEMA}, method=method, include_raw=True).invoke(ASKED)
    assert answer["parsing_error"] is None
    Person.model_validate(answer["parsed"])
    last = None
    for last in model.with_structured_output({"title": "person", **SCHEMA}, method=method).stream(ASKED):
        pass
    assert last == answer["parsed"]


def test_json_mode(service):
    model = chat_model(service, max_tokens=400, temperature=0.8, seed=5)
    try:
        answer = model.with_structured_output(None, method="json_mode").invoke(ASKED)
        assert isinstance(answer, dict)
    except openai.LengthFinishReasonError as cut:  # the demo model may go on for long
        assert cut.completion.choices[0].message.content.lstrip().startswith("{")


def test_what_only_other_servers_have(service):
    model = chat_model(service, extra_body={"structured_outputs": {"choice": list(CITIES)}})
    assert model.invoke(ASKED).text in CITIES


def test_text(service):
    model = langchain_openai.OpenAI(model="golden", base_url=service.url + "/v1", api_key="none", max_retries=0,
                                    timeout=DEADLINE, temperature=0, max_tokens=24)
    prompts = ["She was", "He had never"]
    both = model.generate(prompts)
    assert both.llm_output["token_usage"]["completion_tokens"] == 48
    texts = [one.text for [one] in both.generations]
    assert texts == [model.invoke(p) for p in prompts] == ["".join(model.stream(p)) for p in prompts]
    several = langchain_openai.OpenAI(model="golden", base_url=service.url + "/v1", api_key="none", max_retries=0,
                                      timeout=DEADLINE, seed=7, n=2, best_of=2, max_tokens=24)
    assert len({one.text for one in several.generate(prompts[:1]).generations[0]}) == 2


def test_errors_are_those_that_chains_handle(service):
    from langchain_core.exceptions import ContextOverflowError
    with pytest.raises(ContextOverflowError):
        chat_model(service).invoke("x " * 3000)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        chat_model(service, temperature=9).invoke(ASKED)
