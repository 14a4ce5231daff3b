// MegaScale-Infer (arXiv 2504.02263), figures 8-13 and tables 3-4: bf16, 571 tokens in and 159 out
// (on average half of the answer is there), TPOT 150 ms.

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/plan/figures.h"
#include "bench/plan/table.h"
#include "common/format.h"
#include "tests/support/plan_settings.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

constexpr double kContext = 571 + 80;
constexpr PlanGoal kGoal = {0.15, 0};
constexpr const char* kModels[] = {"mixtral-8x22b", "dbrx", "scaled-moe"};

// One expert per node, two GPUs per node, the gate on the attention side.
Configuration Nodes(const Setting& setting, int m, int micro_batches) {
  Configuration how;
  how.m = m;
  how.n = setting.model.experts;
  how.tp_attention = how.tp_experts = 2;
  how.micro_batches = micro_batches;
  how.gate = GateSide::kAttention;
  how.slots = 1;
  return how;
}

// The ampere cluster: 400 GB/s between GPUs, both directions together, and a 200 Gbit/s card each.
HardwareProfile Ampere() {
  HardwareProfile ampere = *FindHardware("A800");
  ampere.name = "Ampere 80GB";
  return ampere;
}

struct Pairs {
  std::string best;
  double rate = 0;
  double h20_l40s = 0;
  std::string whole;
  double whole_rate = 0;
};

// The devices for attention and experts with most tokens per second and per cost.
Pairs BestPair(const char* model, double context) {
  Pairs pairs;
  for (const char* a : {"L20", "H800", "A800", "H20", "L40S"}) {
    for (const char* e : {"L20", "H800", "A800", "H20", "L40S"}) {
      const auto answer = SearchPlans(Make(model, a, e, context), kGoal, {});
      if (!answer.ok()) continue;
      const std::string name = std::string(a) + "+" + e;
      const double rate = PerCost(answer->plans[0]);
      if (name == "H20+L40S") pairs.h20_l40s = rate;
      if (rate > pairs.rate) {
        pairs.rate = rate;
        pairs.best = name;
      }
      if (!answer->wholes.empty() && PerCost(answer->wholes[0]) > pairs.whole_rate) {
        pairs.whole_rate = PerCost(answer->wholes[0]);
        pairs.whole = answer->wholes[0].device + " " + NameOf(answer->wholes[0].how);
      }
    }
  }
  return pairs;
}

void Table3() {
  // Memory, bandwidth and arithmetic per cost, as printed.
  struct Printed {
    const char* name;
    double memory, bandwidth, compute;
  };
  double off = 0;
  for (const Printed& p : {Printed{"L20", 48, 864, 119.5},
                           {"H800", 15.2, 649.7, 187.3},
                           {"A800", 35.4, 902.2, 138.1},
                           {"H20", 51.9, 2214.1, 80},
                           {"L40S", 44.4, 800, 335.2}}) {
    const HardwareProfile h = *FindHardware(p.name);
    for (const auto& [printed, ours] : {std::pair(p.memory, h.memory_bytes / 1e9),
                                        {p.bandwidth, h.memory_bytes_per_second / 1e9},
                                        {p.compute, h.bf16_operations_per_second / 1e12}}) {
      off = std::max(off, std::abs(ours / h.price / printed - 1));
    }
  }
  std::vector<Row> rows;
  rows.push_back({"15 ratios per cost", "as printed", Format("within %.1f %%", off * 100),
                  If(off < 0.005), ""});
  for (const char* model : kModels) {
    for (const double context : {kContext, 8192.}) {
      const Pairs pairs = BestPair(model, context);
      rows.push_back({Format("%s, %.0f keys, best of 25 pairs", model, context), "H20+L40S",
                      Format("%s %.0f (H20+L40S %.0f; whole on %s %.0f)", pairs.best.c_str(),
                             pairs.rate, pairs.h20_l40s, pairs.whole.c_str(), pairs.whole_rate),
                      If(pairs.best == "H20+L40S"),
                      pairs.best.starts_with("H20+")
                          ? "H20 for attention as there; an L40S has 12.5 GB/s of network for rows"
                          : "projections of a large batch outweigh so few keys, and H20 has the "
                            "least arithmetic per cost"});
    }
  }
  Print("MegaScale-Infer Table 3: devices; tokens per second and cost", "order", rows);
}

void Table4() {
  std::vector<Row> rows;
  const double printed[] = {141, 132, 317};
  int row = 0;
  for (const char* name : kModels) {
    const ModelShape model = *FindModel(name);
    const double billions =
        (model.AttentionBytes() + model.ExpertBytes() * model.experts * model.layers) / 2e9;
    const double paper = printed[row++];
    rows.push_back({name, Format("%.0f B", paper), Format("%.1f B", billions),
                    If(std::abs(billions / paper - 1) < 0.02), ""});
  }
  Print("MegaScale-Infer Table 4 and 7.1: parameters", "size", rows);
}

void Figure8() {
  std::vector<Row> rows;
  for (const char* name : kModels) {
    const bool is_scaled = name == std::string("scaled-moe");
    const int gpus = is_scaled ? 16 : 8;
    const Setting setting = Make(*FindModel(name), Ampere(), Ampere(), kContext);
    const PlanAnswer answer = *SearchPlans(setting, kGoal, {});
    const double separated = PerGpu(answer.plans[0]);
    // vLLM: tensor parallelism within a node, a pipeline across nodes. TensorRT-LLM may also use
    // expert parallelism.
    const auto vllm = EvaluateWhole(setting, kGoal, {}, {gpus, gpus / 8, 8, 8, false});
    std::optional<WholePlan> tensorrt;
    for (const WholePlan& plan : SearchWholes(setting, kGoal, {}, gpus)) {
      if (plan.gpus == gpus && !tensorrt) tensorrt = plan;
    }
    const double over_vllm = vllm ? separated / PerGpu(*vllm) : HUGE_VAL;
    // vLLM 0.6.6 runs at most 256 sequences by default.
    const auto usual =
        EvaluateWhole(setting, {kGoal.tpot_seconds, 256}, {}, {gpus, gpus / 8, 8, 8, false});
    rows.push_back({Format("%s over vLLM (%s)", name, is_scaled ? "TP8 PP2" : "TP8"),
                    is_scaled ? "7.11x" : "2.56x", Format("%.2fx", over_vllm), If(over_vllm > 1.02),
                    Format("at what memory holds (%.0f sequences); at vLLM's default of 256 %.2fx",
                           vllm ? vllm->batch : 0, usual ? separated / PerGpu(*usual) : 0)});
    if (!tensorrt) continue;
    const double over_tensorrt = separated / PerGpu(*tensorrt);
    rows.push_back({Format("%s over TensorRT-LLM (%s)", name, NameOf(tensorrt->how).c_str()),
                    is_scaled ? "1.90x" : "1.28x", Format("%.2fx", over_tensorrt),
                    If(over_tensorrt > 1.02),
                    over_tensorrt > 1
                        ? ""
                        : Format("the best of the grammar on those GPUs, %.0f sequences fill its "
                                 "experts too",
                                 tensorrt->batch)});
  }
  Print("MegaScale-Infer Fig. 8: throughput per GPU, Ampere 80 GB, whole on 8 (Scaled-MoE 16)",
        "order", rows);
}

void Figure9() {
  std::vector<Row> rows;
  for (const char* name : kModels) {
    const PlanAnswer mixed = *SearchPlans(Make(name, "H20", "L40S", kContext), kGoal, {});
    const Setting h20 = Make(name, "H20", "H20", kContext);
    const Plan& best = mixed.plans[0];
    const std::string plan = std::to_string(best.how.m) + "A" + std::to_string(best.how.n) + "E";
    const int gpus = name == std::string("scaled-moe") ? 16 : 8;
    const auto vllm = EvaluateWhole(h20, kGoal, {}, {gpus, gpus / 8, 8, 8, false});
    const auto wholes = SearchWholes(h20, kGoal, {}, 384);
    const double over = PerCost(best) / PerCost(wholes[0]);
    rows.push_back({Format("%s over H20, TP8%s", name, gpus > 8 ? " PP2" : ""), "3.24x (vLLM)",
                    vllm ? Format("%.2fx, %s", PerCost(best) / PerCost(*vllm), plan.c_str()) : "-",
                    If(vllm && PerCost(best) > PerCost(*vllm)),
                    "most of three models in the paper"});
    rows.push_back({Format("%s over H20, %s", name, NameOf(wholes[0].how).c_str()),
                    "1.86x (TensorRT-LLM)", Format("%.2fx", over), If(over > 1),
                    "our whole model is ideal, theirs a server"});
  }
  Print("MegaScale-Infer Fig. 9: H20 attention with L40S experts, tokens per second and cost",
        "order", rows);
}

void Figures10And11() {
  Print("MegaScale-Infer Fig. 10, 11: latency of its M2N library against NCCL", "order",
        {{"256 KB, median, p99, throughput", "-68 %, -93 %, 4.2x", "network_bench",
          Agreement::kNotAsked,
          "of a library, not of a plan: the model has one exchange and no tails"}});
}

void Figure12() {
  std::vector<Row> rows;
  const char* const third[] = {"1.10x", "1.28x", "1.38x"};
  double before = 0;
  int row = 0;
  for (const char* model : kModels) {
    const Setting setting = Make(*FindModel(model), Ampere(), Ampere(), kContext);
    const auto rate = [&](int b, bool is_constant_global) {
      const double batch = (is_constant_global ? 1.0 : b) * 128 * 8;
      return batch / TimePerOutputToken(setting, Nodes(setting, 8, b), batch);
    };
    const auto gain = [&](int b, bool global) { return rate(b + 1, global) / rate(b, global); };
    rows.push_back({Format("%s, b 1 -> 2", model), "1.9x", Format("%.2fx", gain(1, false)),
                    If(gain(1, false) > 1.5), ""});
    rows.push_back({Format("%s, b 2 -> 3", model), third[row++], Format("%.2fx", gain(2, false)),
                    If(gain(2, false) > before),
                    Format("at constant global batch b 1 -> 2 -> 3 gives %.2fx, %.2fx",
                           gain(1, true), gain(2, true))});
    rows.push_back({Format("%s, b 3 -> 4", model), "marginal", Format("%.2fx", gain(3, false)),
                    If(gain(3, false) < gain(2, false) || gain(3, false) < 1.02), ""});
    before = gain(2, false);
  }
  Print("MegaScale-Infer Fig. 12: gain of micro-batches of constant size (128 a node, 8 attention)",
        "order", rows);
}

void Figure13() {
  const Setting setting = Make(*FindModel("dbrx"), Ampere(), Ampere(), kContext);
  const auto tpot = [&](int m) {
    return TimePerOutputToken(setting, Nodes(setting, m, 3), 3.0 * 128 * m);
  };
  const auto rate = [&](int m) { return 3.0 * 128 * m / tpot(m) / (2 * (m + 16)); };
  std::vector<Row> rows;
  rows.push_back({"TPOT, DP 1 -> 4", "constant", Format("%.2fx", tpot(4) / tpot(1)),
                  If(tpot(4) / tpot(1) < 1.15), ""});
  rows.push_back({"tokens/s and GPU, DP 1, 2, 4", "linear, with the GPUs that are added",
                  Format("%.0f, %.0f, %.0f", rate(1), rate(2), rate(4)),
                  If(rate(1) < rate(2) && rate(2) < rate(4)), ""});
  rows.push_back(
      {"best DP", "8",
       Format("8: %.0f, 12: %.0f, 16: %.0f, 32: %.0f", rate(8), rate(12), rate(16), rate(32)),
       If(rate(8) > 0.98 * rate(12) && rate(8) > rate(16)),
       "flat between 8 and 12: no micro-batch size is stated, 128 a node taken"});
  rows.push_back({"TPOT, DP 8 -> 16", "rises", Format("%.2fx", tpot(16) / tpot(8)),
                  If(tpot(16) > 1.2 * tpot(8)), ""});
  Print("MegaScale-Infer Fig. 13: DBRX, b = 3, data-parallel degree of attention", "order", rows);
}

}  // namespace

void MegaScaleFigures() {
  Table3();
  Table4();
  Figure8();
  Figure9();
  Figures10And11();
  Figure12();
  Figure13();
}

}  // namespace janus::bench
