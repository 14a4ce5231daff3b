// What does the performance model say of the papers' figures, and how long does a search take?
//
// plan_bench: one table per figure; the papers' numbers stand beside ours.

#include <chrono>
#include <cstdio>

#include "common/check.h"
#include "controllers/plan/search.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

Setting Make(const char* model, const char* attention, const char* experts, double context) {
  Setting setting;
  setting.model = *FindModel(model);
  setting.attention = *CostsOf(*FindHardware(attention), setting.model.bytes_per_weight);
  setting.experts = *CostsOf(*FindHardware(experts), setting.model.bytes_per_weight);
  setting.context = context;
  return setting;
}

void JanusFigure7() {
  std::printf("JANUS Fig. 7: DeepSeek-V2, bf16, H100, TPOT 200 ms, 16 tokens in, 256 out\n");
  std::printf("%6s %8s %8s %10s | %9s %9s %9s | %s\n", "BATCH", "PAPER", "OURS", "TPOT ms",
              "tok/s/GPU", "8A8E", "8A16E", "OVER 8A8E");
  const Setting setting = Make("deepseek-v2", "H100", "H100", 16 + 128);
  const char* const paper[] = {"1A6E", "1A6E", "1A8E", "4A8E", "8A14E"};
  int row = 0;
  for (const double batch : {4., 16., 64., 256., 512.}) {
    const PlanAnswer answer = *SearchPlans(setting, {0.2, batch}, {});
    const Plan& best = answer.plans[0];
    const auto per_gpu = [&](int n) {
      Configuration fixed;
      fixed.m = 8;
      fixed.n = n;
      const auto plan = EvaluatePlan(setting, {0.2, batch}, {}, fixed);
      return plan ? plan->tokens_per_second / plan->gpus : 0.0;
    };
    const std::string name = std::to_string(best.how.m) + "A" + std::to_string(best.how.n) + "E";
    std::printf("%6.0f %8s %8s %10.1f | %9.1f %9.1f %9.1f | %.2fx\n", batch, paper[row++],
                name.c_str(), best.tpot_seconds * 1e3, best.tokens_per_second / best.gpus,
                per_gpu(8), per_gpu(16), best.tokens_per_second / best.gpus / per_gpu(8));
  }
}

Configuration MegaScale(const Setting& setting, int m, int micro_batches) {
  Configuration how;
  how.m = m;
  how.n = setting.model.experts;  // one expert a node
  how.tp_attention = how.tp_experts = 2;
  how.micro_batches = micro_batches;
  how.gate = GateSide::kAttention;
  return how;
}

void MegaScaleFigure13() {
  std::printf("\nMegaScale-Infer Fig. 13: DBRX, A100, b = 3, micro-batch 128 a node; best DP 8\n");
  std::printf("%4s %10s %12s | %s\n", "DP", "TPOT ms", "tok/s/GPU", "T_a, T_e, T_out, T_back us");
  const Setting setting = Make("dbrx", "A100", "A100", 571 + 80);
  for (const int m : {1, 2, 4, 8, 12, 16, 24, 32}) {
    const Configuration how = MegaScale(setting, m, 3);
    const double batch = 3.0 * 128 * m;
    const double tpot = TimePerOutputToken(setting, how, batch);
    const LayerTimes t = TimesOfLayer(setting, how, batch);
    std::printf("%4d %10.1f %12.1f | %.0f %.0f %.0f %.0f\n", m, tpot * 1e3,
                batch / tpot / (2 * (m + how.n)), t.attention * 1e6, t.experts * 1e6, t.out * 1e6,
                t.back * 1e6);
  }
}

void MegaScaleFigure12() {
  std::printf(
      "\nMegaScale-Infer Fig. 12: gain of b at constant micro-batch (128 a node), A100; then "
      "at constant global batch\n");
  std::printf("%-14s | %6s %6s %6s | %6s %6s %6s\n", "MODEL", "1->2", "2->3", "3->4", "1->2",
              "2->3", "3->4");
  for (const char* model : {"mixtral-8x22b", "dbrx", "scaled-moe"}) {
    const Setting setting = Make(model, "A100", "A100", 571 + 80);
    const auto rate = [&](int b, bool constant_global) {
      const double batch = (constant_global ? 1.0 : b) * 128 * 8;
      return batch / TimePerOutputToken(setting, MegaScale(setting, 8, b), batch);
    };
    std::printf("%-14s |", model);
    for (const bool constant_global : {false, true}) {
      for (int b = 1; b < 4; ++b) {
        std::printf(" %5.2fx", rate(b + 1, constant_global) / rate(b, constant_global));
      }
      std::printf(constant_global ? "\n" : " |");
    }
  }
  std::printf("paper: 1->2 1.9x; 2->3 1.10x, 1.28x, 1.38x; further marginal\n");
}

void MegaScaleTable3() {
  std::printf(
      "\nMegaScale-Infer Table 3 / Fig. 9: tokens per second and cost, TPOT 150 ms; whole = not "
      "separated\n");
  std::printf("%-14s %-12s %-10s %10s %10s %10s\n", "MODEL", "DEVICES", "PLAN", "PER COST", "WHOLE",
              "SEARCH ms");
  for (const char* model : {"mixtral-8x22b", "dbrx", "scaled-moe"}) {
    for (const auto& [a, e] : {std::pair("H20", "L40S"),
                               {"H20", "H20"},
                               {"L40S", "L40S"},
                               {"A800", "A800"},
                               {"H800", "H800"}}) {
      const Setting setting = Make(model, a, e, 571 + 80);
      const auto begin = std::chrono::steady_clock::now();
      const Result<PlanAnswer> answer = SearchPlans(setting, {0.15, 0}, {});
      const double ms =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
              .count();
      JANUS_CHECK(answer.ok(), answer.status().ToString());
      const Plan& best = answer->plans[0];
      const std::string devices = std::string(a) + "+" + e;
      const std::string plan = std::to_string(best.how.m) + "A" + std::to_string(best.how.n) + "E";
      std::printf(
          "%-14s %-12s %-10s %10.1f %10.1f %10.1f\n", model, devices.c_str(), plan.c_str(),
          best.tokens_per_second / best.cost,
          answer->monolith ? answer->monolith->tokens_per_second / answer->monolith->cost : 0, ms);
    }
  }
  std::printf(
      "paper: H20 attention with L40S experts 3.24x vLLM and 1.86x TensorRT-LLM on H20 whole\n");
}

}  // namespace
}  // namespace janus::bench

int main() {
  janus::bench::JanusFigure7();
  janus::bench::MegaScaleFigure13();
  janus::bench::MegaScaleFigure12();
  janus::bench::MegaScaleTable3();
}
