// Published results of separating attention and experts ("AFD"), gains and losses: does the model
// say the same sign? Devices that the calibration has not seen are carried over by data sheet.

#include <algorithm>
#include <cmath>

#include "bench/plan/settings.h"
#include "bench/plan/table.h"

namespace janus::bench {
namespace {

using namespace controllers;  // NOLINT: a bench of them

constexpr double kAnyTarget = 1;  // rows that state no latency

// One GPU of a GB200 NVL72: 72 of them on NVLink.
HardwareProfile Gb200() {
  HardwareProfile h;
  h.name = "GB200";
  h.memory_bytes = 186e9;
  h.memory_bytes_per_second = 8e12;
  h.bf16_operations_per_second = 2.5e15;
  h.fp8_operations_per_second = 5e15;
  h.intra_node_bytes_per_second = 900e9;
  h.inter_node_bytes_per_second = 50e9;
  h.instances_per_node = 72;
  return h;
}

// One die of an Ascend 910C in a CloudMatrix supernode: 768 of them on its unified bus.
HardwareProfile AscendDie() {
  HardwareProfile h;
  h.name = "Ascend 910C die";
  h.memory_bytes = 64e9;
  h.memory_bytes_per_second = 1.6e12;
  h.bf16_operations_per_second = 376e12;
  h.fp8_operations_per_second = 752e12;  // int8
  h.intra_node_bytes_per_second = 196e9;
  h.inter_node_bytes_per_second = 50e9;
  h.instances_per_node = 768;
  return h;
}

ModelShape Grouped(const char* name, int layers, double hidden, double heads, double kv_heads,
                   int experts, double intermediate, double vocab, double bytes_per_weight) {
  ModelShape model;
  model.name = name;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = 128;
  model.experts = experts;
  model.top_k = 8;
  model.intermediate = intermediate;
  model.vocab = vocab;
  model.bytes_per_weight = bytes_per_weight;
  return model;
}

ModelShape Qwen235() {
  return Grouped("Qwen3-235B", 94, 4096, 64, 4, 128, 1536, 151936, 1);
}
ModelShape MiniMax() {
  return Grouped("MiniMax-M2.5", 62, 3072, 48, 8, 256, 1536, 200064, 1);
}
ModelShape Qwen30() {
  return Grouped("Qwen3-30B", 48, 2048, 32, 4, 128, 768, 151936, 2);
}

// Both modules on one kind of device, sharing its node; all sequences of one length, as these
// measurements have them.
Setting On(const ModelShape& model, const HardwareProfile& device, double context) {
  Setting setting = Make(model, device, device, context);
  setting.shares_node = true;
  setting.context_deviation = 0;
  return setting;
}

// Tokens per second and GPU of m and n with `each` sequences an attention GPU (0: what memory
// holds), at the quickest number of micro-batches and exchange; 0: does not fit.
double Separated(const Setting& setting, int m, int n, double each) {
  const auto plan = BestOf(setting, {kAnyTarget, each * m}, m, n);
  return plan ? PerGpu(*plan) : 0;
}

// Data-parallel attention and expert-parallel experts on `gpus`, as much as memory holds.
double Wide(const Setting& setting, int gpus) {
  const auto whole = EvaluateWhole(setting, {kAnyTarget, 0}, {}, {gpus});
  return whole ? PerGpu(*whole) : 0;
}

std::string Percent(double ratio) {
  return Text("%+.1f %%", (ratio - 1) * 100);
}

Row Signed(const std::string& what, double published, double ours, const char* why) {
  return {what, Percent(published), Percent(ours), If((published > 1) == (ours > 1)), why};
}

void FastAfd(std::vector<Row>& rows) {
  struct Case {
    ModelShape model;
    double context;
    int trays;
    double each;
    double afd, ep4, ep16;  // tokens per second and GPU
  };
  const char* const why =
      "the whole has neither late ranks nor uneven rows here: measured, EP16 takes 1.2-1.4 times "
      "our steps, separated ones less";
  for (const Case& c : {Case{Qwen235(), 8192, 7, 96, 2522.6, 1779.8, 2331.7},
                        {Qwen235(), 16384, 11, 48, 1395.8, 935.8, 1204.1},
                        {MiniMax(), 8192, 17, 72, 2254.4, 1512.6, 2218.9},
                        {MiniMax(), 16384, 17, 0, 1006, 735.3, 1118.7}}) {
    const Setting setting = On(c.model, Gb200(), c.context);
    const double ours = Separated(setting, 4 * c.trays, 4, c.each);
    for (const auto& [gpus, published] : {std::pair(4, c.ep4), {16, c.ep16}}) {
      const double wide = Wide(setting, gpus);
      const bool is_same = (c.afd > published) == (ours > wide);
      rows.push_back({Text("%s %.0fK, GB200, A%d:F1 trays over EP%d", c.model.name.c_str(),
                           c.context / 1024, c.trays, gpus),
                      Percent(c.afd / published) + Text(" (%.0f, %.0f)", c.afd, published),
                      Percent(ours / wide) + Text(" (%.0f, %.0f)", ours, wide), If(is_same),
                      is_same ? "" : why});
    }
  }
}

// Sparse attention reads 2,048 keys of a context: time as of so many, room as of all.
void Ascend(std::vector<Row>& rows) {
  struct Case {
    double context;
    int m;
    double published;
  };
  const ModelShape model = *FindModel("deepseek-v3");
  for (const Case& c :
       {Case{16384, 48, 0.947}, {16384, 64, 1.113}, {32768, 48, 0.900}, {32768, 64, 1.090}}) {
    Setting setting = On(model, AscendDie(), c.context);  // batch: as much as memory holds
    const double whole_room = WholeRoom(setting, {64});
    Configuration how;
    how.m = c.m;
    how.n = 16;
    const double each = KvTokensOfOne(setting, how) / c.context;
    setting.context = 2048;
    const double whole = whole_room / WholeTimePerOutputToken(setting, {64}, whole_room) / 64;
    double ours = 0;
    for (how.micro_batches = 1; how.micro_batches <= 3; ++how.micro_batches) {
      for (const auto mode : {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                              ExchangeMode::kTwoPhaseParallel}) {
        how.mode = mode;
        const double batch = std::floor(each) * c.m;
        how.slots = model.experts / how.n;
        ours = std::max(ours, batch / TimePerOutputToken(setting, how, batch) / (c.m + 16));
      }
    }
    rows.push_back(
        Signed(Text("DeepSeek-V3.2 %.0fK, Ascend A3, %dA16F over EP64", c.context / 1024, c.m),
               c.published, ours / whole, ""));
  }
}

void Others(std::vector<Row>& rows) {
  // Two micro-batches of a fixed batch instead of one, both modules on one GPU each.
  const HardwareProfile h100 = *FindHardware("H100");
  for (const auto& [device, published] : {std::pair(h100, 0.75), {AscendDie(), 0.85}}) {
    const Setting setting = On(Qwen30(), device, 1024);
    Configuration one;
    Configuration two;
    two.micro_batches = 2;
    const double ratio =
        TimePerOutputToken(setting, one, 32) / TimePerOutputToken(setting, two, 32);
    rows.push_back(Signed(Text("Qwen3-30B, two micro-batches of one batch, %s",
                               device.name == "H100" ? "GPU" : "Ascend 910C"),
                          published, ratio, "batch 32 and 1A1E taken, neither is stated"));
  }
  // A model that fits one device, one sequence.
  const Setting alone = On(Qwen30(), h100, 1024);
  rows.push_back(Signed("experts fit beside attention, batch 1", 84. / 261,
                        WholeTimePerOutputToken(alone, {1}, 1) / TimePerOutputToken(alone, {}, 1),
                        "Qwen3-30B on H100 in place of Qwen3.8-Flash, whose shape is not public"));
  const Setting janus = Make("deepseek-v2", "H100", "H100", 144);
  const PlanAnswer answer = *SearchPlans(janus, {0.2, 64}, {});
  const auto whole = EvaluateWhole(janus, {0.2, 64}, {}, {16});
  rows.push_back(Signed("JANUS, DeepSeek-V2, over a whole of 16 GPUs", 3.9,
                        PerGpu(answer.plans[0]) / PerGpu(*whole), "batch 64; plan_bench janus"));
  const HardwareProfile a800 = *FindHardware("A800");
  const Setting mega = Make(*FindModel("scaled-moe"), a800, a800, 651);
  rows.push_back(Signed("MegaScale-Infer, Scaled-MoE, per GPU", 1.9,
                        PerGpu(SearchPlans(mega, {0.15, 0}, {})->plans[0]) /
                            PerGpu(SearchWholes(mega, {0.15, 0}, {}, 16)[0]),
                        "over the best whole on at most 16 GPUs; plan_bench megascale"));
  const Setting hetero = Make("scaled-moe", "H20", "L40S", 651);
  const Setting h20 = Make("scaled-moe", "H20", "H20", 651);
  rows.push_back(Signed("MegaScale-Infer, Scaled-MoE, H20+L40S per cost", 1.86,
                        PerCost(SearchPlans(hetero, {0.15, 0}, {})->plans[0]) /
                            PerCost(SearchWholes(h20, {0.15, 0}, {}, 384)[0]),
                        ""));
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

void Ratios() {
  struct Case {
    double context;
    std::vector<int> trays;
    int best;
    double last_over_best;
  };
  std::vector<Row> rows;
  int before = 0;
  for (const Case& c : {Case{16384, {4, 5, 14, 15, 16}, 5, 1172. / 1684},
                        {32768, {3, 4, 5, 14, 15, 16}, 5, 783. / 881},
                        {65536, {3, 4, 5, 7, 13, 14, 16}, 7, 468. / 497},
                        {131072, {3, 4, 6, 7, 14, 15, 16}, 15, 248. / 251}}) {
    const Setting setting = On(Qwen235(), Gb200(), c.context);
    int best = 0;
    double most = 0;
    for (const int trays : c.trays) {
      const double rate = Separated(setting, 4 * trays, 4, 0);
      if (rate > most) {
        most = rate;
        best = trays;
      }
    }
    const double last = Separated(setting, 64, 4, 0) / most;
    rows.push_back({Text("%.0fK", c.context / 1024),
                    Text("A%d, A16 at %.0f %%", c.best, c.last_over_best * 100),
                    Text("A%d, A16 at %.0f %%", best, last * 100), If(best >= before), ""});
    before = best;
  }
  Print(
      "FastAFD, Qwen3-235B, GB200: best number of attention trays for one of experts, and what "
      "16 give (the order: never fewer as contexts grow)",
      "order", rows);
}

}  // namespace

void PublishedDisaggregation() {
  std::vector<Row> rows;
  FastAfd(rows);
  Ascend(rows);
  Others(rows);
  NotExpressible(rows);
  Print("Published results of separating: throughput over not separating", "sign", rows);
  Ratios();
}

}  // namespace janus::bench
