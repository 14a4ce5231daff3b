#include "controllers/cpu_costs.h"

#include <algorithm>
#include <string>

#include "controllers/plan/model_shape.h"

namespace janus::controllers {
namespace {

// A call of the kernels of one layer beside its products: norms, RoPE, softmax, the gate, and what
// sorts rows by expert.
constexpr double kLayerSeconds = 3e-6;
// From a write of one process until another one that waits for it goes on.
constexpr double kWakeSeconds = 2e-6;
// The same over a socket of the machine's network.
constexpr double kNetworkSeconds = 60e-6;
// Of the rate of one projection over many rows a step reaches this share: an expert has fewer rows,
// and they are gathered and pass through activations.
constexpr double kOfStep = 0.65;
// Of that, keys are multiplied at this share: heads are narrow.
constexpr double kOfKeys = 0.25;
// How well reading and computing overlap within one core.
constexpr double kSharpness = 1.5;
constexpr double kNetworkBytesPerSecond = 1.25e9;

}  // namespace

HardwareProfile CpuHardware(const CpuSpeed& speed, int threads, double memory_bytes) {
  const auto with_threads = [&](double one, double all) {
    return std::min(one * threads, std::max(all, one));
  };
  HardwareProfile out;
  out.name = "CPU with " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  out.is_cpu = true;
  out.memory_bytes = memory_bytes;
  out.memory_bytes_per_second = with_threads(speed.one.bytes, speed.all.bytes);
  out.bf16_operations_per_second = with_threads(speed.one.operations, speed.all.operations);
  // Rows are written and read once each.
  out.intra_node_bytes_per_second = out.memory_bytes_per_second / 2;
  out.inter_node_bytes_per_second = kNetworkBytesPerSecond;
  out.instances_per_node = 1024;  // a machine takes as many processes as are started on it
  return out;
}

DeviceCosts CpuCosts(const HardwareProfile& hardware) {
  const double bytes = hardware.memory_bytes_per_second;
  const double operations = kOfStep * hardware.bf16_operations_per_second;
  DeviceCosts costs;
  costs.hardware = hardware;
  costs.experts = {kLayerSeconds, bytes, operations, 0, kSharpness};
  GroupedAttentionCost& grouped = costs.grouped;
  grouped.fixed_seconds = kLayerSeconds;
  grouped.bytes_per_second = bytes;
  grouped.cached_bytes_per_second = bytes;
  grouped.operation_seconds = 2 / (kOfKeys * operations);
  grouped.sharpness = kSharpness;
  // In terms of DeepSeek-V3's module with one byte a weight, from which plan/terms.cc scales it.
  static const ModelShape measured = *FindModel("deepseek-v3");
  const double shared_of_head = measured.shared_weights / measured.heads;
  LatentAttentionCost& latent = costs.latent;
  latent.fixed_seconds = kLayerSeconds;
  latent.head_seconds =
      (measured.head_weights + shared_of_head) * measured.bytes_per_weight / bytes;
  latent.row_seconds = 2 * measured.shared_weights / operations;
  latent.row_head_seconds = 2 * measured.head_weights / operations;
  constexpr double kLatent = 512, kRope = 64;
  latent.key_seconds = 2 * (kLatent + kRope) / bytes;
  latent.key_head_seconds = 2 * (2 * kLatent + kRope) / (kOfKeys * operations);
  latent.sharpness = kSharpness;
  ExchangeCost& hop = costs.dispatch;
  hop.fixed_seconds = kWakeSeconds;
  hop.network_seconds = kNetworkSeconds;
  hop.inner_bytes_per_second = hardware.intra_node_bytes_per_second;
  hop.network_bytes_per_second = hardware.inter_node_bytes_per_second;
  costs.combine = hop;
  const CollectiveCost::Protocol protocol = {kWakeSeconds, kWakeSeconds,
                                             hardware.intra_node_bytes_per_second};
  costs.all_gather = {protocol, protocol};
  costs.all_reduce = {protocol, protocol};
  return costs;
}

}  // namespace janus::controllers
