// A model end to end on one GPU. Attention and expert instances are threads of this process, each
// with separate streams. They share random weights that are made on the device. Greedy answers from
// 1A1E to 2A3E must be the same tokens, and request 0 must get the same tokens in every batch. A
// line has tokens per second, time per output token, the share of time outside kernels, and the
// shares of steps that wait and that the host takes. Other lines are for the same model without an
// exchange, and with one that does not pass through the host. It adds one JSON line per topology to
// the file that --results names. A topology that is in the file is not run again.
//
// Mixtral has as many layers as fit into the GPU's memory, or --mixtral-layers. Its lines say how
// many.

#include <algorithm>
#include <iostream>

#include "bench/gpu/gpu_clock.h"
#include "bench/gpu/gpu_model.h"
#include "bench/gpu/serving.h"
#include "bench/gpu/shapes.h"

namespace janus::bench {
namespace {

// Bytes of a layer's tensors. Nearly all are experts.
int64_t LayerBytes(const ModelDescription& model) {
  const AttentionDescription& a = model.attention;
  const int64_t attention = int64_t{2} * model.hidden * (a.heads + a.kv_heads) * a.head_dim;
  return 2 * (attention + int64_t{3} * model.moe.experts * model.hidden * model.moe.intermediate);
}

// As many of Mixtral's layers as leave a sixth of the memory free: at most 32, in steps of 4.
int MixtralLayersFor(uint64_t free_bytes) {
  const auto fit =
      static_cast<int>(static_cast<int64_t>(free_bytes / 6 * 5) / LayerBytes(Mixtral(1)) / 4 * 4);
  return std::clamp(fit, 4, 32);
}

// Expert instances that share the experts also hold replicas of half of them.
std::vector<ServingTopology> TopologiesFor(const ModelDescription& model) {
  const int experts = model.moe.experts;
  const int half = experts - experts / 4, third = experts / 2;
  return {{1, {experts}},
          {.m = 1, .slots = {experts}, .is_whole = true},
          {2, {third, third, third}, 2},
          {.m = 1, .slots = {experts}, .in_place = true},
          {.m = 2, .slots = {third, third, third}, .micro_batches = 2, .in_place = true},
          {2, {third, third, third}},
          {1, {half, half}},
          {2, {half, half}}};
}

bool ServeModel(const std::string& name, const ModelDescription& model, const ServingLoad& load,
                kernels::cuda::Results& results) {
  const std::vector<ServingTopology> topologies = TopologiesFor(model);
  dataplane::LoopbackCluster::Options options;
  options.device = kernels::Device::kCuda;
  options.make_context = OpenGpu;
  options.weights_are_placed = true;
  const bool all_there = std::ranges::all_of(topologies, [&](const ServingTopology& topology) {
    const std::string line = LineOf(name, topology, load);
    return results.Find(line, "bits") >= 0.0 || IsRefused(results, line);
  });
  dataplane::HeldModel held;
  if (!all_there) held = RandomModelOnGpu(model);
  return ServeAll(name, held, options, MakeGpuClock, topologies, load, results);
}

// The most informative first.
constexpr ServingLoad kLoads[] = {{64, 64, 128}, {1, 64, 128}, {256, 64, 128}};

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool has_layers = arguments.size() == 4 && arguments[2] == "--mixtral-layers";
  if ((arguments.size() != 2 && !has_layers) || arguments[0] != "--results") {
    std::cerr << "usage: " << argv[0] << " --results FILE [--mixtral-layers N]\n";
    return 2;
  }
  kernels::cuda::Results results(arguments[1]);
  if (!results.ok()) {
    std::cerr << "cannot write " << arguments[1] << '\n';
    return 2;
  }
  const int layers = has_layers ? std::clamp(std::atoi(arguments[3].c_str()), 1, 32)
                                : MixtralLayersFor(OpenGpu()->memory()->free);
  const std::string mixtral = "Mixtral of " + std::to_string(layers) + " layers";
  bool alike = true;
  for (const ServingLoad& load : kLoads) {
    alike = ServeModel("V2-Lite", DeepSeekV2Lite(), load, results) && alike;
    alike = ServeModel(mixtral, Mixtral(layers), load, results) && alike;
  }
  const auto same = [&](const std::string& name, const ModelDescription& model) {
    return SameOverLoads(name, TopologiesFor(model), kLoads, results);
  };
  alike = same("V2-Lite", DeepSeekV2Lite()) && alike;
  alike = same(mixtral, Mixtral(layers)) && alike;
  return alike ? 0 : 1;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  return janus::bench::Main(argc, argv);
}
