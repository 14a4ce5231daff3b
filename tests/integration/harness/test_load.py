"""guidellm and aiperf load the served model, and none of their requests fails."""

import json

import pytest

from conftest import DEADLINE, program, run

REQUESTS = 24


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
def test_guidellm_finishes_without_a_failed_request(service, path, tmp_path):
    report = tmp_path / "report.json"
    run([program("guidellm"), "run", "--disable-console",
         "--backend", f"kind=openai_http,target={service.url},model=golden,request_format={path},timeout={DEADLINE}",
         "--tokenizer", f"kind=huggingface_auto,model={service.model}",
         "--data", "kind=synthetic_text,prompt_tokens=48,output_tokens=12",
         "--profile", "kind=concurrent,streams=4",
         "--constraint", f"kind=max_requests,count={REQUESTS}",
         "--output", f"kind=json,path={report}"], tmp_path, HF_HUB_OFFLINE="1")
    [benchmark] = json.loads(report.read_text())["benchmarks"]
    totals = benchmark["metrics"]["request_totals"]
    assert (totals["successful"], totals["errored"], totals["incomplete"]) == (REQUESTS, 0, 0), totals


@pytest.mark.parametrize("kind", ["chat", "completions", "responses", "messages"])
def test_aiperf_finishes_without_a_failed_request(service, kind, tmp_path):
    run([program("aiperf"), "profile", "--model", "golden", "--url", service.url, "--endpoint-type", kind,
         "--streaming", "--tokenizer", service.model, "--concurrency", 4, "--request-count", REQUESTS,
         "--isl", 48, "--osl", 12, "--extra-inputs", "ignore_eos:true", "--use-server-token-count",
         "--artifact-dir", tmp_path, "--ui", "none"], tmp_path)
    report = json.loads((tmp_path / "profile_export_aiperf.json").read_text())
    assert report["request_count"]["avg"] == REQUESTS
    assert not report.get("error_request_count") and not report["error_summary"], report["error_summary"]
    if kind != "responses":  # of these aiperf reads no count where the limit ends the answer
        assert report["output_sequence_length"]["avg"] == 12
