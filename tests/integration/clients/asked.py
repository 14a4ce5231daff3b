"""What the tests of all client libraries ask for, and the checks of its answers."""

import json
from typing import Literal

import pydantic

CITIES = ("Rome", "Oslo")
SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
    "properties": {"name": {"type": "string", "maxLength": 12},
                   "age": {"type": "integer", "minimum": 0, "maximum": 120},
                   "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
TOOLS = [{"type": "function", "function": {
    "name": name, "description": f"Tells the {name} of a city.", "parameters": {
        "type": "object", "additionalProperties": False, "required": ["city"],
        "properties": {"city": {"enum": list(CITIES)},
                       "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}}
    for name in ("weather", "traffic")]


def check_call(name, arguments, names):
    assert name in names
    assert arguments["city"] in CITIES and 1 <= arguments.get("days", 1) <= 9, arguments
    assert set(arguments) <= {"city", "days"}


class Person(pydantic.BaseModel):
    """What SCHEMA accepts."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=120)
    tags: list[Literal["a", "b"]] = pydantic.Field(max_length=2)
