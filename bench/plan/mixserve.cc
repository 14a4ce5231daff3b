// MixServe (arXiv 2601), Table II and Fig. 10: DeepSeek-R1 on two nodes of eight H20, at most 16
// sequences at once, ShareGPT's lengths.

#include <algorithm>

#include "bench/plan/figures.h"
#include "bench/plan/table.h"
#include "common/format.h"
#include "controllers/plan/whole_search.h"
#include "tests/support/plan_settings.h"

namespace janus::bench {

using namespace controllers;  // NOLINT: a bench of them

void MixServeFigures() {
  // About a prompt and half an answer of ShareGPT. Its exact lengths are not stated.
  constexpr double kContext = 400;
  constexpr double kBatch = 16;
  const Setting setting = Make("deepseek-v3", "H20", "H20", kContext);
  struct Strategy {
    const char* name;
    const char* published;  // total tokens per second, prompts included
    WholeConfiguration how;
  };
  const Strategy strategies[] = {
      {"vLLM TP8 PP2", "363 tokens/s", {16, 2, 8, 8, false}},
      {"vLLM TP8+DP2, EP16", "not in figures", {16, 1, 8, 1, false}},
      {"vLLM TP4+DP4, EP16", "not in figures", {16, 1, 4, 1, false}},
      {"Tutel TP8+DP2, TP8+EP2", "not in figures", {16, 1, 8, 8, false}},
      {"Tutel TP4+DP4, TP4+EP4", "not in figures", {16, 1, 4, 4, false}},
  };
  std::vector<Row> rows;
  double first = 0;
  double most = 0;
  for (const Strategy& strategy : strategies) {
    const double step = WholeTimePerOutputToken(setting, strategy.how, kBatch);
    if (first == 0) first = kBatch / step;
    most = std::max(most, kBatch / step);
    rows.push_back({strategy.name, strategy.published,
                    Format("ITL %.1f ms, %.0f tokens/s decoded", step * 1e3, kBatch / step),
                    Agreement::kNotAsked, "kernels and links at their best; theirs is a server"});
  }
  rows.push_back({"the best over TP8 PP2", "1.50x (MixServe's own, 545 tokens/s)",
                  Format("%.2fx", most / first), If(most > first), ""});
  PlanSpace space;
  space.max_batch_per_attention = 1;
  const auto wholes = SearchWholes(setting, {10, kBatch}, space, 16);
  rows.push_back({"chosen for 16 sequences on at most 16", "d_DP < d_EP: TP8+DP2, TP4+EP4",
                  wholes.empty() ? "none" : NameOf(wholes[0].how), Agreement::kNotAsked,
                  "ours takes fewest GPUs, theirs the quickest on all"});
  Print("MixServe Table II: strategies on 16 H20, 16 sequences of 400 keys", "order", rows);
}

}  // namespace janus::bench
