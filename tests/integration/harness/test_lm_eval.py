"""lm-evaluation-harness gives the served model the scores of its own `hf` model on the same checkpoint."""

import json

import pytest

from conftest import HERE, program, run


def evaluate(model, arguments, tasks, folder, *flags):
    """({task: scores}, {task: [sample]})."""
    run([program("lm_eval"), "run", "--model", model, "--device", "cpu",
         "--model_args", ",".join(f"{name}={value}" for name, value in arguments.items()),
         "--tasks", ",".join(tasks), "--include_path", HERE, "--output_path", folder, "--log_samples",
         *flags], HERE, HF_HUB_OFFLINE="1")
    [results] = folder.rglob("results_*.json")
    scores = {task: {name: value for name, value in one.items() if "stderr" not in name}
              for task, one in json.loads(results.read_text())["results"].items()}
    samples = {}
    for task in tasks:
        [file] = folder.rglob(f"samples_{task}_*.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        samples[task] = sorted(lines, key=lambda line: line["doc_id"])
    return scores, samples


def texts(samples):
    return [one["resps"] for one in samples]


def likelihoods(samples):
    return [(float(score), greedy) for one in samples for [[score, greedy]] in one["resps"]]


@pytest.fixture(scope="module")
def tokenizer(service):
    # Prompts begin with <s>, as those of the local model do.
    return {"tokenizer": service.model, "tokenizer_backend": "huggingface", "add_bos_token": True,
            "num_concurrent": 4, "max_retries": 1}


def own(service, tasks, folder, *flags):
    return evaluate("hf", {"pretrained": service.model, "dtype": "float32"}, tasks, folder, *flags)


def test_completions_have_the_scores_of_the_local_model(service, tokenizer, tmp_path):
    tasks = ["austen_choices", "austen_words"]
    expected, samples = own(service, tasks, tmp_path / "hf")
    scores, got = evaluate(
        "local-completions", {"model": "golden", "base_url": service.url + "/v1/completions", **tokenizer},
        tasks, tmp_path / "served")
    assert scores == expected
    for score in ("acc,none", "acc_norm,none"):  # otherwise equality would say little
        assert 0.2 < scores["austen_choices"][score] < 1
    assert 0.1 < scores["austen_words"]["exact_match,first_word"] < 1
    assert texts(got["austen_words"]) == texts(samples["austen_words"])
    pairs = list(zip(likelihoods(got["austen_choices"]), likelihoods(samples["austen_choices"]), strict=True))
    assert len(pairs) == 72
    for (score, greedy), (reference, is_greedy) in pairs:
        assert score == pytest.approx(reference, abs=1e-3) and greedy == is_greedy


def test_chats_have_the_scores_of_the_local_model(service, tokenizer, tmp_path):
    expected, samples = own(service, ["austen_words"], tmp_path / "hf", "--apply_chat_template")
    scores, got = evaluate(
        "local-chat-completions", {"model": "golden", "base_url": service.url + "/v1/chat/completions",
                                   **tokenizer}, ["austen_words"], tmp_path / "served", "--apply_chat_template")
    assert scores == expected
    assert texts(got["austen_words"]) == texts(samples["austen_words"])
    assert len({json.dumps(text) for text in texts(got["austen_words"])}) > 10
