// Published results of separating attention and experts ("AFD"), gains and losses. Does the model
// predict the same sign?

#include "bench/plan/figures.h"
#include "bench/plan/table.h"
#include "common/format.h"
#include "tests/support/published_separation.h"

namespace janus::bench {
namespace {

std::string Percent(double ratio) {
  return Format("%+.1f %%", (ratio - 1) * 100);
}

std::string PercentOf(double ratio, const std::optional<controllers::SeparationRates>& rates) {
  return Percent(ratio) + (rates ? Format(" (%.0f, %.0f)", rates->apart, rates->together) : "");
}

void NotExpressible(std::vector<Row>& rows) {
  const auto add = [&](const char* what, const char* published, const char* why) {
    rows.push_back({what, published, "-", Agreement::kNotAsked, why});
  };
  add("DeepSeek-V3.2 prefill, CAM, P50 TTFT", "-47 %",
      "context-parallel prefill on its own GPUs: no such term");
  add("Qwen3.5-122B bf16 eager, 4A4F over DP8 EP8", "+1.0 %, TTFT +8.9 %",
      "linear attention and launches without graphs: no such terms");
  add("Qwen3-30B, two micro-batches, prefill", "0.50x GPU, 3.32x Ascend",
      "launch times of a stack, opposite signs on one model");
  add("xDeepServe, 910C, 50 ms", "2400 tokens/s", "no system to compare with is stated");
  add("METRO over EPLB, decode latency", "-11..-22 %", "not about separating: routing_bench");
  add("EaaS, throughput under a fault", "< -2 %", "not about separating");
  add("AFD DSE, DeepSeek-V3.2, strict SLO", "whole infeasible", "the SLO is not stated");
}

void Trays() {
  std::vector<Row> rows;
  int before = 0;
  for (const controllers::TraySweep& sweep : controllers::PublishedTraySweeps()) {
    const auto text = [](int best, double of_best) {
      return Format("A%d, A16 at %.0f %%", best, of_best * 100);
    };
    rows.push_back({Format("%.0fK", sweep.context / 1024),
                    text(sweep.published_best, sweep.published_of_best),
                    text(sweep.our_best, sweep.our_of_best), If(sweep.our_best >= before), ""});
    before = sweep.our_best;
  }
  Print(
      "FastAFD, Qwen3-235B, GB200: best number of attention trays for one of experts, and what "
      "16 give (the order: never fewer as contexts grow)",
      "order", rows);
}

}  // namespace

void PublishedDisaggregation() {
  std::vector<Row> rows;
  for (const controllers::SeparationResult& result : controllers::PublishedSeparations()) {
    rows.push_back({result.setting, PercentOf(result.published, result.published_rates),
                    PercentOf(result.ours, result.our_rates), If(result.IsSameSign()),
                    result.taken + result.why});
  }
  NotExpressible(rows);
  Print("Published results of separating: throughput over not separating", "sign", rows);
  Trays();
}

}  // namespace janus::bench
