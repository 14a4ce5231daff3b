"""Uses the official client. At temperature 0 the scripted worker answers with the prompt."""

import array
import base64
import json
import shutil

import openai
import pytest

EMOJI = "naïve 🙂 👩‍👩‍👧 日本語"


def complete(gateway, prompt="It is a truth", **options):
    options.setdefault("temperature", 0)
    options.setdefault("max_tokens", 200)
    return gateway.client().completions.create(model="tiny", prompt=prompt, **options)


def chat(gateway, content="Good morning.", **options):
    options.setdefault("temperature", 0)
    messages = [{"role": "user", "content": content}]
    return gateway.client().chat.completions.create(model="tiny", messages=messages, **options)


def text_of(stream):
    return "".join(c.choices[0].text for c in stream if c.choices)


def test_completion_says_text_reason_and_usage(shared):
    answer = complete(shared)
    assert answer.object == "text_completion" and answer.model == "tiny"
    assert answer.choices[0].text == "It is a truth"
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert usage.prompt_tokens == usage.completion_tokens  # prompt: <s>; answer: stop token
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_completion_stream_is_the_completion(shared):
    chunks = list(complete(shared, EMOJI, stream=True))
    assert text_of(chunks) == EMOJI
    assert len(chunks) > 1
    assert [c.choices[0].finish_reason for c in chunks].count("stop") == 1
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({c.id for c in chunks}) == 1


def test_no_chunk_holds_a_broken_character(shared):
    for chunk in complete(shared, EMOJI, stream=True):
        assert "\ufffd" not in chunk.choices[0].text


def test_stream_ends_with_usage_if_asked(shared):
    chunks = list(complete(shared, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage == complete(shared).usage
    assert all(c.usage is None for c in chunks[:-1])


def test_chat_applies_the_template(shared):
    answer = chat(shared)
    assert answer.object == "chat.completion"
    message = answer.choices[0].message
    # The scripted worker repeats the rendered prompt up to the first stop token, <|end|>.
    assert message.role == "assistant" and message.content == "Good morning."
    assert answer.choices[0].finish_reason == "stop"
    whole = chat(shared, extra_body={"skip_special_tokens": False, "return_token_ids": True})
    assert whole.choices[0].message.content == "<|user|>Good morning."
    assert whole.choices[0].prompt_token_ids[0] == 1
    assert whole.choices[0].token_ids[-1] == 3


def test_chat_stream_says_the_role_once(shared):
    chunks = list(chat(shared, EMOJI, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == EMOJI
    assert [c.choices[0].delta.role for c in chunks].count("assistant") == 1
    assert chunks[0].object == "chat.completion.chunk"


def test_chat_takes_text_parts(shared):
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert chat(shared, parts).choices[0].message.content == "One.\nTwo."


def test_a_prompt_may_be_token_ids(shared):
    ids = complete(shared, extra_body={"return_token_ids": True}).choices[0].prompt_token_ids
    assert complete(shared, ids).choices[0].text == "It is a truth"


def test_several_prompts_are_several_choices(shared):
    answer = complete(shared, ["one", "two", "three"])
    assert [(c.index, c.text) for c in answer.choices] == [(0, "one"), (1, "two"), (2, "three")]
    streamed = {}
    for chunk in complete(shared, ["one", "two", "three"], stream=True):
        choice = chunk.choices[0]
        streamed[choice.index] = streamed.get(choice.index, "") + choice.text
    assert streamed == {0: "one", 1: "two", 2: "three"}


def test_max_tokens_ends_with_length(shared):
    answer = complete(shared, max_tokens=3)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 3


def test_completions_default_to_sixteen_tokens(shared):
    answer = shared.client().completions.create(model="tiny", prompt="x " * 40, temperature=0)
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop, text", [
    (" truth", "It is a"),
    ("a tr", "It is "),
    (["zzz", "is"], "It "),
    ("It", ""),
    (["truthful", "x", "y", "z"], "It is a truth"),
    ("🙂", "It is a truth"),
])
def test_stop_strings_end_the_text_before_them(shared, stop, text, stream):
    answer = complete(shared, stop=stop, stream=stream, logprobs=0)
    if stream:
        chunks = list(answer)
        assert text_of(chunks) == text
        tokens = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.tokens]
        assert chunks[-1].choices[0].finish_reason == "stop"
    else:
        assert answer.choices[0].text == text
        assert answer.choices[0].finish_reason == "stop"
        tokens = answer.choices[0].logprobs.tokens
    assert "".join(tokens).startswith(text)
    # The token of the text's last character may extend into the stop string; no token lies behind
    # it.
    assert len("".join(tokens[:-1])) <= len(text)


def test_a_stop_string_cancels_the_generation(start):
    # An endless answer, because one that ends by itself needs no cancel.
    worker = start.scripted("--stall-after", "8")
    gateway = start.gateway([worker])
    complete(gateway, "abcdefgh" * 10, stop="c")
    worker.wait_for("cancel")
    assert gateway.metric("vllm:num_requests_running") == 0


def test_held_back_text_never_leaks(shared):
    said = ""
    for chunk in complete(shared, "aaab aaaab", stop="aaaab", stream=True):
        said += chunk.choices[0].text
        assert not said.endswith("aaaab"[: len(said) - len("aaab ")] + "b")
    assert said == "aaab "


def test_equal_seeds_give_equal_answers(shared):
    def sample(**options):
        return complete(shared, temperature=1, max_tokens=20, **options).choices[0].text

    assert sample(seed=7) == sample(seed=7) != sample(seed=8)
    assert sample(seed=-7) == sample(seed=-7)
    assert sample(seed=2**63) == sample(seed=2**63)
    # Without a seed, the gateway draws one.
    assert sample() != sample()


def test_chat_logprobs_have_the_documented_shape(shared):
    answer = chat(shared, "🙂a", logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    assert bytes(b for t in content for b in t.bytes).decode().endswith("🙂a")
    for token in content:
        assert token.logprob == pytest.approx(-0.25)
        assert [t.logprob for t in token.top_logprobs] == pytest.approx([-0.25, -1.25])
        assert token.top_logprobs[0].token == token.token
    streamed = []
    for chunk in chat(shared, "🙂a", logprobs=True, top_logprobs=2, stream=True):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == content
    assert chat(shared).choices[0].logprobs is None


def test_completion_logprobs_have_the_documented_shape(shared):
    logprobs = complete(shared, "It is", logprobs=2).choices[0].logprobs
    assert "".join(logprobs.tokens) == "It is"
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset)
    assert logprobs.text_offset[0] == 0 and logprobs.text_offset == sorted(logprobs.text_offset)
    assert all(len(t) == 2 for t in logprobs.top_logprobs)
    assert complete(shared, logprobs=0).choices[0].logprobs.top_logprobs is None


def test_logits_hashes_come_back_on_request(shared):
    plain = complete(shared)
    assert not hasattr(plain.choices[0], "logits_hashes")
    answer = complete(shared, extra_body={"logits_hash": True})
    hashes = answer.choices[0].logits_hashes
    assert len(hashes) == answer.usage.completion_tokens
    assert all(len(h) == 16 for h in hashes)
    streamed = []
    for chunk in complete(shared, stream=True, extra_body={"logits_hash": True}):
        streamed += chunk.choices[0].logits_hashes
    assert streamed == hashes


def test_models_are_listed(shared):
    models = shared.client().models.list().data
    assert [m.id for m in models] == ["tiny"]
    assert shared.client().models.retrieve("tiny").id == "tiny"
    assert models[0].max_model_len == 1024
    with pytest.raises(openai.NotFoundError):
        shared.client().models.retrieve("other")


def test_ignored_and_neutral_parameters_pass(shared):
    complete(shared, user="u", n=1, best_of=1, echo=False, frequency_penalty=0.0,
             presence_penalty=0, logit_bias={}, suffix="")
    chat(shared, metadata={"a": "b"}, store=True, service_tier="auto", n=1, tools=[],
         tool_choice="auto", response_format={"type": "text"}, parallel_tool_calls=True)


@pytest.mark.parametrize("options, param", [
    ({"best_of": 3}, "best_of"),
    ({"suffix": "x"}, "suffix"),
    ({"extra_body": {"use_beam_search": True}}, "use_beam_search"),
    ({"extra_body": {"length_penalty": 2}}, "length_penalty"),
    ({"extra_body": {"temperatur": 1}}, "temperatur"),
    ({"stream": True, "stream_options": {"include_everything": True}},
     "stream_options.include_everything"),
])
def test_what_is_not_carried_out_is_refused_by_name(shared, options, param):
    with pytest.raises(openai.BadRequestError) as error:
        complete(shared, **options)
    assert error.value.code == "unsupported_parameter" and error.value.param == param
    assert param.split(".")[-1] in error.value.message


@pytest.mark.parametrize("options, param", [
    ({"temperature": -1}, "temperature"),
    ({"temperature": 1e9}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.5}, "top_p"),
    ({"extra_body": {"top_k": -2}}, "top_k"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -5}, "max_tokens"),
    ({"max_tokens": 10**9}, "max_tokens"),
    ({"max_tokens": 10**30}, "max_tokens"),
    ({"seed": 1.5}, "seed"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": ""}, "stop"),
    ({"stop": [1]}, "stop"),
    ({"logprobs": 6}, "logprobs"),
    ({"stream": False, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [1, 512]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"prompt": [5] * 1024}, "prompt"),
    ({"prompt": "a b " * 2000}, "prompt"),
    ({"prompt": ["x"] * 129}, "prompt"),
])
def test_absurd_values_are_refused_by_name(shared, options, param):
    with pytest.raises(openai.BadRequestError) as error:
        complete(shared, **options)
    assert error.value.param == param, error.value.message
    assert error.value.type == "invalid_request_error"
    assert len(error.value.message) < 400


@pytest.mark.parametrize("messages, param", [
    ([], "messages"),
    ("hello", "messages"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"content": "x"}], "messages[0].role"),
    (["x"], "messages[0]"),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
     "messages[0].content"),
    ([{"role": "assistant", "content": "I speak first."}], "messages"),  # the template raises
])
def test_wrong_messages_are_refused_by_name(shared, messages, param):
    with pytest.raises(openai.BadRequestError) as error:
        shared.client().chat.completions.create(model="tiny", messages=messages)
    assert error.value.param == param, error.value.message


def test_the_templates_own_message_reaches_the_client(shared):
    with pytest.raises(openai.BadRequestError, match="roles must alternate"):
        shared.client().chat.completions.create(
            model="tiny", messages=[{"role": "assistant", "content": "I speak first."}])


def test_an_unknown_model_is_not_found(shared):
    with pytest.raises(openai.NotFoundError) as error:
        shared.client().completions.create(model="gpt-9", prompt="x")
    assert error.value.code == "model_not_found" and "tiny" in error.value.message


def test_logits_hashes_need_the_flag(start):
    gateway = start.gateway([start.scripted()])
    with pytest.raises(openai.BadRequestError, match="--debug-logits-hash"):
        complete(gateway, extra_body={"logits_hash": True})


def test_keys_are_asked_for(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nsecret-1\nsecret-2\n")
    gateway = start.gateway([start.scripted()], "--api-keys-file", keys)
    for key in ("secret-1", "secret-2"):
        assert gateway.client(key).models.list().data
    for key in ("secret", "secret-11", "# ours", "x"):
        with pytest.raises(openai.AuthenticationError):
            gateway.client(key).models.list()
        with pytest.raises(openai.AuthenticationError):
            gateway.client(key).completions.create(model="tiny", prompt="x")


def test_a_model_without_template_points_to_completions(start, model, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(model, bare)
    config = json.loads((bare / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (bare / "tokenizer_config.json").write_text(json.dumps(config))
    worker = start.scripted()
    gateway = start.gateway([worker], model=bare)
    with pytest.raises(openai.BadRequestError, match="/v1/completions.*--chat-template FILE"):
        chat(gateway)
    assert complete(gateway).choices[0].text == "It is a truth"
    mine = tmp_path / "mine.jinja"
    mine.write_text("{{ messages[0].content }}!")
    assert chat(start.gateway([worker], "--chat-template", mine, model=bare),
                max_tokens=50).choices[0].message.content == "Good morning.!"


def test_sampling_defaults_are_the_checkpoints(start, model, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(model, own)
    (own / "generation_config.json").write_text(json.dumps(
        {"eos_token_id": [2], "temperature": 0.5, "top_k": 7, "top_p": 0.25, "do_sample": True}))
    worker = start.scripted()
    gateway = start.gateway([worker], model=own)
    gateway.client().completions.create(model="tiny", prompt="x", max_tokens=1)
    gateway.client().completions.create(
        model="tiny", prompt="x", max_tokens=1, temperature=1, top_p=1, extra_body={"top_k": -1})
    first, second = worker.wait_for("submit", 2)
    assert (first["temperature"], first["top_k"], first["top_p"]) == (0.5, 7, 0.25)
    assert (second["temperature"], second["top_k"], second["top_p"]) == (1, 0, 1)
    assert first["stop_tokens"] == 1


def test_several_choices_are_numbered_by_prompt(shared):
    answer = complete(shared, ["one", "two"], n=2)
    assert [(c.index, c.text) for c in answer.choices] == [
        (0, "one"), (1, "one"), (2, "two"), (3, "two")]
    # A prompt of several choices counts once.
    assert answer.usage.prompt_tokens == complete(shared, ["one", "two"]).usage.prompt_tokens
    drawn = complete(shared, n=3, temperature=1, seed=7, max_tokens=20)
    assert len({c.text for c in drawn.choices}) == 3
    alone = complete(shared, temperature=1, seed=8, max_tokens=20)
    assert drawn.choices[1].text == alone.choices[0].text


def test_several_choices_are_streamed(shared):
    texts = ["", "", ""]
    for chunk in chat(shared, "Good.", n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["Good."] * 3


def test_usage_is_in_every_chunk_if_asked(shared):
    chunks = list(complete(shared, stream=True, stream_options={
        "include_usage": True, "continuous_usage_stats": True}))
    tokens = [c.usage.completion_tokens for c in chunks]
    assert tokens == sorted(tokens) and tokens[0] >= 1
    assert chunks[-2].usage == chunks[-1].usage


def test_an_echo_has_the_prompt_and_its_logprobs(shared):
    # Like lm-evaluation-harness when it needs log likelihoods.
    ids = [50, 60, 70]
    choice = complete(shared, ids, echo=True, logprobs=1, max_tokens=1).choices[0]
    logprobs = choice.logprobs
    assert len(logprobs.tokens) == 4
    assert logprobs.token_logprobs[:3] == [None, -1.0, -2.0]
    assert logprobs.top_logprobs[0] is None and len(logprobs.top_logprobs[1]) == 1
    assert logprobs.text_offset[3] == len(choice.text) - len(logprobs.tokens[3])
    assert choice.text == "".join(logprobs.tokens)
    nothing = complete(shared, ids, echo=True, logprobs=1, max_tokens=0)
    assert nothing.choices[0].logprobs.tokens == logprobs.tokens[:3]
    assert nothing.usage.completion_tokens == 0
    assert nothing.choices[0].finish_reason == "length"
    streamed = list(complete(shared, "abc", echo=True, stream=True))
    assert text_of(streamed) == "abcabc"


def test_prompt_logprobs_are_those_of_vllm(shared):
    ids = [50, 60, 70]
    answer = complete(shared, ids, max_tokens=1, extra_body={"prompt_logprobs": 1})
    scores = answer.choices[0].prompt_logprobs
    assert scores[0] is None and scores[1]["60"]["logprob"] == -1.0
    assert scores[2]["70"]["rank"] == 1 and set(scores[2]["70"]) == {
        "logprob", "rank", "decoded_token"}
    answer = chat(shared, extra_body={"prompt_logprobs": 0})
    assert answer.prompt_logprobs[0] is None


def experts_at(positions):
    """Of the scripted instance: two layers, the first without experts."""
    return [[[-1, -1], [p, p + 1]] for p in positions]


def decoded(sglext):
    ids = array.array("i", base64.b64decode(sglext["routed_experts"])).tolist()
    assert len(ids) % 4 == 0
    return [[ids[i : i + 2], ids[i + 2 : i + 4]] for i in range(0, len(ids), 4)]


def test_routed_experts_are_those_of_sglang(shared):
    ids, asked = [50, 60, 70], {"return_routed_experts": True}
    answer = complete(shared, ids, max_tokens=3, extra_body=asked)
    assert answer.usage.completion_tokens == 3
    assert decoded(answer.sglext) == experts_at(range(5)), "all but the last token's"
    later = complete(shared, ids, max_tokens=3, extra_body=asked | {"routed_experts_start_len": 2})
    assert decoded(later.sglext) == experts_at(range(2, 5))
    assert not hasattr(complete(shared, ids, max_tokens=3), "sglext")
    answer = chat(shared, extra_body=asked)
    tokens = answer.usage.total_tokens
    assert decoded(answer.sglext) == experts_at(range(tokens - 1))
    cut = complete(shared, stop=[" a"], extra_body=asked)
    assert decoded(cut.sglext) == experts_at(range(cut.usage.total_tokens - 1))


def test_routed_experts_of_several_answers_are_in_each(shared):
    ids, asked = [[50, 60, 70], [50, 60]], {"return_routed_experts": True}
    answer = complete(shared, ids, max_tokens=3, n=2, extra_body=asked)
    lengths = [len(decoded(choice.sglext)) for choice in answer.choices]
    assert lengths == [5, 5, 4, 4] and not hasattr(answer, "sglext")


def test_routed_experts_end_a_stream(shared):
    asked = {"return_routed_experts": True}
    options = {"stream": True, "stream_options": {"include_usage": True}, "extra_body": asked}
    for chunks in [complete(shared, [50, 60, 70], max_tokens=3, **options), chat(shared, **options)]:
        *before, routed, usage = chunks
        assert not any(hasattr(chunk, "sglext") for chunk in before)
        assert routed.choices == []
        tokens = usage.usage.total_tokens
        assert decoded(routed.sglext) == experts_at(range(tokens - 1))
    chunks = list(chat(shared, n=2, max_tokens=3, **options))
    found = {c.choices[0].index: decoded(c.choices[0].sglext)
             for c in chunks if c.choices and hasattr(c.choices[0], "sglext")}
    prompt = chunks[-1].usage.prompt_tokens
    assert found == {i: experts_at(range(prompt + 2)) for i in range(2)}


def test_routed_experts_that_cannot_be_given_are_refused_by_name(shared):
    with pytest.raises(openai.BadRequestError) as refused:
        complete(shared, [50], extra_body={"return_routed_experts": True, "routed_experts_start_len": 2})
    assert refused.value.param == "routed_experts_start_len"


def test_stop_strings_stay_if_asked(shared):
    assert complete(shared, stop=[" a"]).choices[0].text == "It is"
    kept = complete(shared, stop=[" a"], extra_body={"include_stop_str_in_output": True})
    assert kept.choices[0].text == "It is a"
    many = complete(shared, stop=["q%d" % i for i in range(15)] + [" a"])
    assert many.choices[0].text == "It is"


def test_what_changes_the_sampling_reaches_the_worker(start):
    worker = start.scripted()
    gateway = start.gateway([worker])
    complete(gateway, frequency_penalty=0.5, presence_penalty=-0.5, logit_bias={"7": 3},
             extra_body={"repetition_penalty": 1.5, "min_p": 0.25, "min_tokens": 2})
    got = worker.wait_for("submit")[0]["changes"]
    assert got == {"frequency": 0.5, "presence": -0.5, "repetition": 1.5, "min_p": 0.25,
                   "min_tokens": 2, "bias": 1}


TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
CALL = '<tool_call>{"name": "add", "arguments": {"b": 1, "a": 2}}</tool_call>'


def test_calls_of_tools_are_taken_out_of_the_answer(start):
    gateway = start.templated("{{ messages[0].content }}{# <tool_call> #}")
    asked = {"tools": TOOLS, "max_tokens": 200}
    choice = chat(gateway, "So: " + CALL + "\n" + CALL, **asked).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "So: "
    calls = choice.message.tool_calls
    assert [(c.function.name, c.function.arguments) for c in calls] == [
        ("add", '{"b":1,"a":2}')] * 2
    assert len({c.id for c in calls}) == 2
    one = chat(gateway, CALL + CALL, parallel_tool_calls=False, **asked).choices[0]
    assert len(one.message.tool_calls) == 1 and one.message.content is None
    deltas = [c.choices[0].delta for c in chat(gateway, "x" + CALL + CALL, stream=True, **asked)]
    assert "".join(d.content or "" for d in deltas) == "x"
    streamed = [c for d in deltas for c in d.tool_calls or []]
    assert [c.index for c in streamed] == [0, 1]
    assert streamed[1].function.arguments == '{"b":1,"a":2}'
    text = chat(gateway, CALL, tools=TOOLS, tool_choice="none").choices[0].message
    assert text.content == CALL and text.tool_calls is None


def test_tools_without_a_known_format_are_refused(start):
    gateway = start.templated("{{ messages[0].content }}")
    with pytest.raises(openai.BadRequestError, match="--tool-parser"):
        chat(gateway, tools=TOOLS)
    gateway = start.templated("{{ messages[0].content }}", "--tool-parser", "hermes")
    assert chat(gateway, CALL, tools=TOOLS, max_tokens=200).choices[0].message.tool_calls


def test_harmony_is_split_into_reasoning_content_and_calls(start):
    gateway = start.templated("{{ messages[0].content }}", "--tool-parser", "harmony")
    # Without <|end|>, which ends answers of this model.
    begin = "<|channel|>analysis<|message|>hm<|start|>assistant"
    answer = begin + "<|channel|>final<|message|>So."
    call = begin + '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"b":1}<|call|>'
    message = chat(gateway, answer, max_tokens=200).choices[0].message
    assert message.content == "So." and message.reasoning_content == "hm"
    message = chat(gateway, call, tools=TOOLS, max_tokens=200).choices[0].message
    assert message.content is None and message.reasoning_content == "hm"
    assert [(c.function.name, c.function.arguments) for c in message.tool_calls] == [("add", '{"b":1}')]
    deltas = [c.choices[0].delta for c in chat(gateway, answer, stream=True, max_tokens=200)]
    assert "".join(d.content or "" for d in deltas) == "So."
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == "hm"


def test_reasoning_is_apart_from_the_content(start):
    gateway = start.templated("{{ messages[0].content }}", "--reasoning-parser", "think")
    message = chat(gateway, "<think>hm</think>\n\nSo.", max_tokens=200).choices[0].message
    assert message.content == "So." and message.reasoning_content == "hm"
    deltas = [c.choices[0].delta for c in chat(
        gateway, "<think>hm</think>\n\nSo.", stream=True, max_tokens=200)]
    assert "".join(d.content or "" for d in deltas) == "So."
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == "hm"
