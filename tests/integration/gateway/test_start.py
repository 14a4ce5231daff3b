"""If the gateway cannot start, it prints one line that names the fault."""

import json
import shutil
import subprocess

import pytest

from conftest import BIN, DEADLINE


def refuse(*flags):
    got = subprocess.run([str(BIN / "janus-gateway"), *map(str, flags)], capture_output=True,
                         text=True, timeout=DEADLINE)
    assert got.returncode in (1, 2)
    last = got.stderr.strip().splitlines()[-1]
    assert last.startswith("janus-gateway: ")
    return last


def test_wrong_flags_are_named(model):
    assert "--model" in refuse()
    assert "--member" in refuse("--model", model)
    assert "--frobnicate" in refuse("--frobnicate", "1")
    assert "--threads: 'x' is not an integer between 1 and 64" in refuse("--threads", "x")
    assert "--listen" in refuse("--listen", "8000")
    assert "needs a value" in refuse("--model")
    assert "takes no value" in refuse("--debug-logits-hash=1")


def test_a_port_in_use_is_named(start, model):
    gateway = start.gateway([start.scripted()])
    said = refuse("--model", model, "--member", "unix:/x", "--listen", f"127.0.0.1:{gateway.port}")
    assert f"127.0.0.1:{gateway.port}" in said and "in use" in said and "--listen" in said


def test_a_broken_checkpoint_is_named(model, tmp_path):
    def broken(name, text):
        folder = tmp_path / name.replace(".", "_")
        shutil.copytree(model, folder, dirs_exist_ok=True)
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
        return refuse("--model", folder, "--member", "unix:/x", "--listen", "127.0.0.1:0")

    assert "no such folder" in refuse("--model", tmp_path / "none", "--member", "unix:/x")
    assert "tokenizer.json" in broken("tokenizer.json", None)
    assert "tokenizer.json: not a tokenizer" in broken("tokenizer.json", "{}")
    assert "tokenizer_config.json: not JSON" in broken("tokenizer_config.json", "{")
    assert "generation_config.json" in broken("generation_config.json", '{"eos_token_id": ')
    assert "config.json" in broken("config.json", '{"architectures": ["Nonsense"]}')
    assert "chat_template.jinja: chat template: line 2" in broken("chat_template.jinja", "\n{% if %}")


def test_a_tokenizer_larger_than_the_model_is_named_with_both_sizes(model, tmp_path):
    def with_vocabulary(size):
        folder = tmp_path / str(size)
        shutil.copytree(model, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "vocab_size": size}))
        return folder

    tokenizer = json.loads((model / "tokenizer.json").read_text())
    ids = [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
    count = max(ids) + 1
    said = refuse("--model", with_vocabulary(count - 1), "--member", "unix:/x")
    assert f"its tokenizer has {count} token ids, added tokens included" in said
    assert f"vocab_size in config.json) is {count - 1}" in said
    # A size equal to, or smaller than, a padded vocabulary is accepted; the next fault is reported.
    for size in (count, count + 64):
        said = refuse("--model", with_vocabulary(size), "--member", "unix:/x",
                      "--listen", "203.0.113.1:0")
        assert "cannot listen" in said


def test_a_file_of_keys_must_hold_one(model, tmp_path):
    keys = tmp_path / "keys"
    flags = ["--model", model, "--member", "unix:/x", "--api-keys-file", keys]
    assert str(keys) in refuse(*flags)
    keys.write_text("# none\n\n")
    assert "has no key" in refuse(*flags)


@pytest.mark.parametrize("flag", ["--listen", "--model", "--member", "--drain-seconds"])
def test_help_names_every_flag(flag):
    got = subprocess.run([str(BIN / "janus-gateway"), "--help"], capture_output=True, text=True)
    assert got.returncode == 0 and flag in got.stdout
