"""The official client against real workers: one attention and two expert instances."""

import concurrent.futures
import json
import math
import os
import re
import signal
import threading

import openai
import pytest

from serving import DEADLINE, Service, copy_demo, copy_golden, wait_for


@pytest.fixture(scope="module", params=["golden", "demo"])
def service(request):
    run = Service()
    run.open(copy_golden if request.param == "golden" else copy_demo)
    run.kind = request.param
    try:
        run.start_serving("--experts", "2")
        yield run
        run.stop()
    finally:
        run.close()


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=service.url + "/v1", api_key="none", max_retries=0,
                         timeout=DEADLINE)


def complete(client, prompt="It is a truth", **options):
    options.setdefault("max_tokens", 24)
    return client.completions.create(model="golden", prompt=prompt, **options)


def chat(client, content="Good morning, sir.", **options):
    options.setdefault("max_tokens", 24)
    return client.chat.completions.create(
        model="golden", messages=[{"role": "user", "content": content}], **options)


def text_of(chunks):
    return "".join(c.choices[0].text for c in chunks if c.choices)


def test_the_model_is_listed_with_its_length(client, service):
    model = client.models.list().data[0]
    config = json.loads((service.model / "config.json").read_text())
    assert model.id == "golden" and model.max_model_len == config["max_position_embeddings"]


def test_chat_answers_and_streams_the_same(client, service):
    answer = chat(client, temperature=0)
    message = answer.choices[0].message
    assert message.role == "assistant" and answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.completion_tokens <= 24
    if service.kind == "demo":
        assert re.search(r"[A-Za-z]+ [a-z]+", message.content), message.content
    chunks = list(chat(client, temperature=0, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == message.content
    assert chunks[-1].choices[0].finish_reason == answer.choices[0].finish_reason


def test_completion_answers_and_streams_the_same(client):
    answer = complete(client, temperature=0)
    chunks = list(complete(client, temperature=0, stream=True,
                           stream_options={"include_usage": True}))
    assert text_of(chunks) == answer.choices[0].text
    streamed = chunks[-1].usage
    assert (streamed.prompt_tokens, streamed.completion_tokens) == (
        answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert answer.usage.completion_tokens <= 24


def test_usage_says_how_much_of_a_prompt_was_cached(client):
    prompt = list(range(40, 90))
    first, again = (complete(client, prompt, temperature=0) for _ in range(2))
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert again.usage.prompt_tokens_details.cached_tokens == 48  # whole blocks of 16
    assert again.choices[0].text == first.choices[0].text


def test_several_prompts_are_answered_as_if_alone(client):
    prompts = ["She was", "He had never", "The house stood"]
    together = complete(client, prompts, temperature=0)
    assert [c.text for c in together.choices] == [
        complete(client, p, temperature=0).choices[0].text for p in prompts]


def test_token_ids_are_the_prompt(client):
    first = complete(client, temperature=0, extra_body={"return_token_ids": True})
    ids = first.choices[0].prompt_token_ids
    assert complete(client, ids, temperature=0).choices[0].text == first.choices[0].text


def test_max_tokens_ends_with_length(client):
    answer = complete(client, max_tokens=3, temperature=0, extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_text_before_it(client, stream):
    whole = complete(client, temperature=0).choices[0].text
    stop = whole[len(whole) // 2 : len(whole) // 2 + 3]
    answer = complete(client, temperature=0, stop=stop, stream=stream)
    if stream:
        chunks = list(answer)
        text, reason = text_of(chunks), chunks[-1].choices[0].finish_reason
    else:
        text, reason = answer.choices[0].text, answer.choices[0].finish_reason
    assert text == whole[: whole.index(stop)] and reason == "stop"


def test_a_stop_token_ends_the_answer(client):
    ids = complete(client, temperature=0,
                   extra_body={"return_token_ids": True, "ignore_eos": True}).choices[0].token_ids
    stop = ids[5]
    answer = complete(client, temperature=0, extra_body={
        "return_token_ids": True, "ignore_eos": True, "stop_token_ids": [stop]}).choices[0]
    assert answer.finish_reason == "stop"
    assert answer.token_ids == ids[: ids.index(stop) + 1]


def test_equal_seeds_give_equal_answers_in_any_company(client):
    def sample(seed):
        return complete(client, temperature=1, seed=seed,
                        extra_body={"ignore_eos": True}).choices[0].text

    alone = [sample(seed) for seed in range(6)]
    assert len(set(alone)) == 6
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(sample, range(6))) == alone


def test_logprobs_are_those_of_the_choice(client):
    whole = complete(client, temperature=0, logprobs=5).choices[0].logprobs
    assert len(whole.tokens) == len(whole.token_logprobs) == len(whole.top_logprobs)
    for token, own, top in zip(whole.tokens, whole.token_logprobs, whole.top_logprobs):
        assert own <= 0 and math.isclose(own, max(top.values())), (token, top)  # greedy
        assert sum(math.exp(p) for p in top.values()) <= 1 + 1e-5
    content = chat(client, temperature=0, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token
        assert token.logprob == token.top_logprobs[0].logprob
    streamed = []
    for chunk in complete(client, temperature=0, logprobs=5, stream=True):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.token_logprobs
    assert streamed == whole.token_logprobs


@pytest.mark.parametrize("options, param, code", [
    ({"temperature": -1}, "temperature", "invalid_value"),
    ({"top_p": 0}, "top_p", "invalid_value"),
    ({"n": 0}, "n", "invalid_value"),
    ({"max_tokens": 10**6}, "max_tokens", "context_length_exceeded"),
    ({"prompt": [5] * 5000}, "prompt", "context_length_exceeded"),
    ({"prompt": [10**6]}, "prompt", "invalid_value"),
    ({"extra_body": {"logits_hash": True}}, "logits_hash", "unsupported_parameter"),
])
def test_what_cannot_be_is_400_by_name(client, options, param, code):
    with pytest.raises(openai.BadRequestError) as error:
        complete(client, **options)
    assert (error.value.param, error.value.code) == (param, code), error.value.message


def test_another_model_is_404(client):
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-9", prompt="x")


def test_a_client_that_leaves_in_mid_stream_frees_its_sequence(client, service):
    gone = service.metric("janus_gateway_client_gone_total")
    # A quarter of the cache of one instance, or the length of the model.
    stream = complete(client, "x " * 100, max_tokens=700, temperature=0, stream=True,
                      extra_body={"ignore_eos": True})
    next(iter(stream))
    assert service.metric("vllm:num_requests_running") == 1
    held = wait_for(lambda: service.metric("vllm:kv_cache_usage_perc"), "use of the KV cache")
    stream.close()
    wait_for(lambda: service.metric("janus_gateway_client_gone_total") == gone + 1, "its leaving")
    wait_for(lambda: service.metric("vllm:num_requests_running") == 0, "its end")

    def used():
        # The instance reports its memory with the tokens of the next request.
        complete(client, [5], max_tokens=2, temperature=0, extra_body={"ignore_eos": True})
        return service.metric("vllm:kv_cache_usage_perc")

    wait_for(lambda: used() < held / 2, "the freed sequence")
    assert complete(client, temperature=0).choices[0].text != ""


class TwoRequests:
    """One streamed request and one without a stream, both running and far from their ends."""

    def __init__(self, service):
        self.client = openai.OpenAI(base_url=service.url + "/v1", api_key="none", max_retries=0,
                                    timeout=DEADLINE)
        self.options = {"max_tokens": 1900, "temperature": 0, "extra_body": {"ignore_eos": True}}
        self.stream = complete(self.client, stream=True, **self.options)
        next(iter(self.stream))
        self.whole = {}
        self.asked = threading.Thread(target=self.ask)
        self.asked.start()
        wait_for(lambda: service.metric("vllm:num_requests_running") == 2, "both requests")

    def ask(self):
        try:
            self.whole["answer"] = complete(self.client, **self.options)
        except openai.OpenAIError as error:
            self.whole["error"] = error


@pytest.fixture
def two_experts():
    service = Service()
    service.open(copy_demo)
    try:
        service.start_serving("--experts", "2")
        yield service
    finally:
        service.close()


def test_the_end_of_the_service_is_an_error_that_clients_understand(two_experts):
    """No client's connection breaks."""
    requests = TwoRequests(two_experts)
    two_experts.janusctl.send_signal(signal.SIGINT)
    with pytest.raises(openai.APIError) as error:
        for _ in requests.stream:
            pass
    assert error.value.code in ("service_unavailable", "worker_lost"), repr(error.value)
    requests.asked.join()
    assert isinstance(requests.whole.get("error"), openai.InternalServerError), requests.whole
    assert requests.whole["error"].status_code in (502, 503)
    two_experts.ends()
    two_experts.assert_nothing_left()


@pytest.mark.parametrize("lost", ["attention-1", "experts-2"])
def test_the_loss_of_a_worker_is_nothing_that_clients_see(two_experts, lost):
    requests = TwoRequests(two_experts)
    os.kill(two_experts.pid_of(lost), signal.SIGKILL)
    rest = [chunk.choices[0] for chunk in requests.stream]
    assert rest[-1].finish_reason == "length"
    requests.asked.join()
    assert "error" not in requests.whole, requests.whole
    assert requests.whole["answer"].usage.completion_tokens == 1900
    # The first piece of the stream was read before the loss.
    assert requests.whole["answer"].choices[0].text.endswith("".join(c.text for c in rest))
    two_experts.stop()
