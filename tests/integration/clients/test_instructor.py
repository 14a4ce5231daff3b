"""Uses instructor, which turns answers into Pydantic's objects, over all three APIs."""

import anthropic
import openai
import pydantic
import pytest

instructor = pytest.importorskip("instructor")

from instructor.exceptions import IncompleteOutputException  # noqa: E402

from asked import Person  # noqa: E402
from serving import DEADLINE  # noqa: E402

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Good morning, sir."}]
OPTIONS = {"model": "golden", "messages": MESSAGES, "max_retries": 0, "max_tokens": 400}


def from_openai(service, mode):
    client = openai.OpenAI(base_url=service.url + "/v1", api_key="none", max_retries=0, timeout=DEADLINE)
    return instructor.from_openai(client, mode=instructor.Mode[mode])


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_an_answer_is_an_object(service, mode):
    client = from_openai(service, mode)
    people = [client.create(response_model=Person, temperature=1, seed=seed, **OPTIONS) for seed in range(3)]
    assert all(isinstance(person, Person) for person in people)
    assert len({person.model_dump_json() for person in people}) > 1
    person, raw = client.create_with_completion(response_model=Person, temperature=1, seed=0, **OPTIONS)
    assert person.model_dump() == people[0].model_dump() and raw.usage.completion_tokens > 1


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
def test_an_object_is_streamed(service, mode):
    client = from_openai(service, mode)
    *_, last = client.create_partial(response_model=Person, temperature=1, seed=4, **OPTIONS)
    Person.model_validate(last.model_dump())


def test_json_without_a_schema_is_an_object_or_cut(service):
    class Anything(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")

    client = from_openai(service, "JSON")
    try:
        answer = client.create(response_model=Anything, temperature=1, seed=5, **OPTIONS)
        assert isinstance(answer, Anything)
    except IncompleteOutputException as cut:
        assert cut.last_completion.usage.completion_tokens == 400


def test_the_other_apis(service):
    responses = from_openai(service, "RESPONSES_TOOLS")
    assert isinstance(responses.create(response_model=Person, temperature=1, **OPTIONS), Person)
    claude = instructor.from_anthropic(
        anthropic.Anthropic(base_url=service.url, api_key="none", max_retries=0, timeout=DEADLINE))
    assert isinstance(claude.create(response_model=Person, **OPTIONS), Person)
