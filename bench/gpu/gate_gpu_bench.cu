// AEBS and the gate on a GPU, as nodes of a graph, beside an empty kernel in the same graph. AEBS
// alone is timed over instances and slots at 512 rows, and over rows. Gate, top-k and AEBS for 64
// rows run in two launches; the lines also have the times of the two alone. It adds one JSON line
// per case to the file that --results names, flushed when the case ends. A case that is in the file
// is not run again.
//
// Experts, ids and weights are random. AEBS finds its ids in the cache, as it does behind a gate.
// The gate's weights rotate through the arena, at least 512 MiB per replay. Times are between
// events of the graph, over its nodes: medians of 30 (bench/gpu/stream_times.h).

#include <random>

#include "bench/gpu/gpu_bench.h"
#include "kernels/cuda/gate.h"
#include "kernels/cuda/gate_fast.h"

namespace janus::kernels::cuda {
namespace {

// A model's gate and its rule. kSigmoid has a bias, and chooses groups by their two best experts
// (kernels.h).
struct Shape {
  const char* name;
  int64_t hidden;
  int experts;
  int top_k;
  int groups;
  int top_groups;
  GateScore score;
  bool renormalize;
  float weight_scale;
};
constexpr Shape kDeepSeekV3{"DeepSeek-V3, sigmoid and bias, groups by their best two",
                            7168,
                            256,
                            8,
                            8,
                            4,
                            GateScore::kSigmoid,
                            true,
                            2.5f};
constexpr Shape kDeepSeekV2{"DeepSeek-V2, softmax, groups by their best",
                            5120,
                            160,
                            6,
                            8,
                            3,
                            GateScore::kSoftmax,
                            false,
                            16.0f};

// Places a replica of each expert and `more` others on random instances.
LayerPlacement DrawPlacement(int experts, int instances, int more) {
  std::mt19937_64 random(1);
  std::vector<std::vector<uint16_t>> of(static_cast<size_t>(instances));
  const auto place = [&](int e) {
    auto& list = of[random() % static_cast<uint64_t>(instances)];
    const auto id = static_cast<uint16_t>(e);
    if (std::ranges::find(list, id) != list.end()) return false;
    list.push_back(id);
    return true;
  };
  for (int e = 0; e < experts; ++e) place(e);
  for (int i = 0; i < more;) {
    i += place(static_cast<int>(random() % static_cast<uint64_t>(experts))) ? 1 : 0;
  }
  Placement placement;
  placement.layers = 1;
  for (const auto& list : of) {
    placement.slots_of_instance.push_back(static_cast<int>(list.size()));
    placement.expert_of.insert(placement.expert_of.end(), list.begin(), list.end());
  }
  return LayerPlacement::Of(placement, 0, experts);
}

// AEBS for `count` ids. Its arrays stay in the device's memory until the program ends.
ScheduleExpertsArgs AebsOf(SchedulingPolicy policy, int experts, int instances, int percent,
                           int64_t count) {
  const LayerPlacement placement =
      DrawPlacement(experts, instances, experts * (percent - 100) / 100);
  ScheduleExpertsArgs a{.policy = policy, .placement = PlacementView::Of(placement)};
  a.placement.first = CopyIn(placement.first);
  a.placement.replicas = CopyIn(placement.replicas);
  a.placement.hosts = CopyIn(placement.hosts);
  a.placement.by_replicas = CopyIn(placement.by_replicas);
  std::mt19937_64 random(2);
  std::vector<uint16_t> ids(static_cast<size_t>(count));
  for (uint16_t& id : ids) id = static_cast<uint16_t>(random() % static_cast<uint64_t>(experts));
  a.ids = CopyIn(ids);
  a.count = count;
  a.replicas = Allocate<Replica>(count);
  a.replica_of = Allocate<Replica>(experts);
  a.load = Allocate<int32_t>(instances);
  a.activated = Allocate<uint16_t>(experts);
  a.num_activated = Allocate<int32_t>(1);
  a.partial = Allocate<uint32_t>(int64_t{kCollectBlocks} * ((experts + 31) / 32));
  return a;
}

std::string NameOf(SchedulingPolicy policy, int instances, int percent) {
  return std::string(policy == SchedulingPolicy::kAebs ? "exact" : "greedy") + ", " +
         std::to_string(instances) + " instances, slots " + std::to_string(percent) + " %";
}

constexpr int kAebsNodes = 64;

void Aebs(GpuBench& bench, SchedulingPolicy policy, int instances, int percent, int64_t rows) {
  const ScheduleExpertsArgs a = AebsOf(policy, 256, instances, percent, rows * 8);
  bench.TimeOfNodes(
      "AEBS of " + std::to_string(rows) + " rows of 8 in 256, " +
          NameOf(policy, instances, percent),
      PlanFastSchedule(a, false).bytes, kAebsNodes,
      [&](int) { Check(ScheduleExperts({.device = Device::kCuda, .native = bench.stream()}, a)); });
}

// Small beside the spread of the scores, as in trained models.
std::vector<float> RandomBias(int experts) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> of(-0.1f, 0.1f);
  std::vector<float> bias(static_cast<size_t>(experts));
  for (float& b : bias) b = of(random);
  return bias;
}

void GateAndAebs(GpuBench& bench, Results& results, const Shape& shape, SchedulingPolicy policy) {
  constexpr int64_t kRows = 64;
  const Stream stream{.device = Device::kCuda, .native = bench.stream()};
  const int64_t elements = kRows * shape.hidden;
  auto* const x = Allocate<uint16_t>(elements);
  Fill<<<static_cast<unsigned>(elements / 8 / 256 + 1), 256, 0, bench.stream()>>>(x, elements, 1.0f,
                                                                                  2);
  std::vector<const void*> pointers;
  for (int64_t t = 0; t < kRows; ++t) pointers.push_back(x + t * shape.hidden);
  GateAndScheduleArgs both;
  both.schedule = AebsOf(policy, shape.experts, 16, 150, kRows * shape.top_k);
  both.arrived = Allocate<uint32_t>(1);
  GateTopKArgs& gate = both.gate;
  gate.x_rows = CopyIn(pointers);
  gate.x_dtype = gate.weight_dtype = DType::kBFloat16;
  gate.logits = Allocate<float>(kRows * shape.experts);
  auto* const ids = Allocate<uint16_t>(kRows * shape.top_k);
  gate.ids = ids;
  gate.weights = Allocate<float>(kRows * shape.top_k);
  gate.rows = kRows;
  gate.hidden = shape.hidden;
  gate.experts = shape.experts;
  gate.top_k = shape.top_k;
  gate.groups = shape.groups;
  gate.top_groups = shape.top_groups;
  gate.score = shape.score;
  if (shape.score == GateScore::kSigmoid) gate.bias = CopyIn(RandomBias(shape.experts));
  gate.renormalize = shape.renormalize;
  gate.weight_scale = shape.weight_scale;
  gate.workspace_bytes = GateTopKWorkspaceBytes(kRows, shape.hidden, shape.experts);
  gate.workspace = Allocate<char>(gate.workspace_bytes);
  both.schedule.ids = ids;
  const int64_t weights = shape.hidden * shape.experts;
  const auto nodes = static_cast<int>((bench::kRotatedBytes - 1) / (2 * weights) + 1);
  bench::CheckRotates(nodes * 2 * weights);
  const auto next = [&] { gate.weight = bench.arena() + bench.rotation().Next(2 * weights) / 2; };
  const std::string name = std::string(shape.name) + ", 64 rows, " + NameOf(policy, 16, 150) + ": ";
  const int64_t bytes = 2 * (weights + elements);
  const auto time = [&](const char* what, auto call) {
    return bench.TimeOfNodes(name + what, bytes, nodes, call);
  };
  const double fused = time("gate and AEBS in two launches", [&](int) {
    next();
    Check(GateAndSchedule(stream, both));
  });
  const double in_turn = time("gate, then AEBS", [&](int) {
    next();
    Check(RunGateTopK(stream, gate, GateForm::kFast));
    Check(ScheduleExperts(stream, both.schedule));
  });
  const double gate_alone = time("gate alone", [&](int) {
    next();
    Check(RunGateTopK(stream, gate, GateForm::kFast));
  });
  const double aebs = bench.TimeOfNodes(name + "AEBS alone", 0, kAebsNodes, [&](int) {
    Check(ScheduleExperts(stream, both.schedule));
  });
  time("plain gate, then AEBS", [&](int) {
    next();
    Check(RunGateTopK(stream, gate, GateForm::kPlain));
    Check(ScheduleExperts(stream, both.schedule));
  });
  if (results.Find(name + "shares", "of_in_turn") >= 0.0) return;
  results.Write(name + "shares",
                "\"of_in_turn\": " + std::to_string(fused / in_turn) +
                    ", \"of_sum\": " + std::to_string(fused / (gate_alone + aebs)));
}

void RunAll(GpuBench& bench, Results& results) {
  constexpr SchedulingPolicy kPolicies[] = {SchedulingPolicy::kAebsGreedy, SchedulingPolicy::kAebs};
  for (const auto policy : kPolicies) {
    for (const int instances : {16, 32}) {
      for (const int percent : {150, 200}) Aebs(bench, policy, instances, percent, 512);
    }
    GateAndAebs(bench, results, kDeepSeekV3, policy);
    GateAndAebs(bench, results, kDeepSeekV2, policy);
  }
  // Growth with instances, then with rows. The largest calls are split over blocks.
  for (const auto policy : kPolicies) {
    for (const int instances : {8, 64}) {
      for (const int percent : {150, 200}) Aebs(bench, policy, instances, percent, 512);
    }
    for (const int64_t rows : {64, 128, 256, 1024, 2048, 4096, 8192}) {
      for (const int instances : {16, 32}) Aebs(bench, policy, instances, 150, rows);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::cuda

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::kernels::cuda::RunAll);
}
