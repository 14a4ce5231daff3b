"""Serves the demo model to the client libraries: one attention and two expert instances."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from serving import Service, copy_demo  # noqa: E402

# The demo model knows two roles. System messages and results of tools become the user's, and calls have
# the form of Qwen's.
TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
  {%- set role = 'assistant' if message.role == 'assistant' else 'user' %}
  {{- '<|' + role + '|>' + (message.content or '') | trim }}
  {%- for call in message.tool_calls or [] %}
    {{- '<tool_call>' + call.function | tojson + '</tool_call>' }}
  {%- endfor %}
  {{- '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}
"""


def copy_model(folder):
    copy_demo(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["chat_template"] = TEMPLATE
    path.write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture(scope="session")
def service():
    run = Service()
    run.open(copy_model)
    try:
        run.start_serving("--experts", "2")
        yield run
        run.stop()
    finally:
        run.close()
