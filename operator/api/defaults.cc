#include "operator/api/defaults.h"

#include "operator/api/device.h"

namespace janus::control {
namespace {

SchedulingPolicy PolicyOf(Scheduling scheduling) {
  switch (scheduling) {
    case Scheduling::kAebs:
      return SchedulingPolicy::kAebs;
    case Scheduling::kAebsGreedy:
      return SchedulingPolicy::kAebsGreedy;
    case Scheduling::kRandom:
      return SchedulingPolicy::kRandom;
    case Scheduling::kStatic:
      return SchedulingPolicy::kStatic;
  }
  return SchedulingPolicy::kAebs;
}

}  // namespace

Effective ResolveDefaults(const MoEService& service) {
  const MoEServiceSpec& spec = service.spec;
  Effective out;
  out.model_name = service.model_name();
  out.device = DeviceOf(service);
  out.scheduling = PolicyOf(spec.roles.experts.scheduling);
  if (spec.exchange.mode == ExchangeMode::kTwoPhaseSingle) {
    out.mode = janus::ExchangeMode::kTwoPhaseSingle;
  } else if (spec.exchange.mode == ExchangeMode::kTwoPhaseParallel) {
    out.mode = janus::ExchangeMode::kTwoPhaseParallel;
  }
  if (spec.exchange.transport == Transport::kSharedMemory) {
    out.transport = ExchangeTransport::kSharedMemory;
  } else if (spec.exchange.transport == Transport::kTcp) {
    out.transport = ExchangeTransport::kTcp;
  } else if (spec.exchange.transport == Transport::kRdma) {
    out.transport = ExchangeTransport::kRdma;
  }
  // One micro-batch: splitting a batch pays only if attention and experts run on separate devices.
  out.micro_batches = spec.pipeline.micro_batches == 0 ? 1 : spec.pipeline.micro_batches;
  if (spec.roles.experts.placement.policy == PlacementPolicy::kRoundRobin) {
    out.placement = PlacementPolicy::kRoundRobin;
  }
  out.kv_memory_percent = spec.roles.attention.kv_cache.memory_percent.value_or(90);
  const PrefixCache prefix_cache = spec.roles.attention.kv_cache.prefix_cache;
  out.prefix_cache = prefix_cache == PrefixCache::kAuto ? PrefixCache::kExact : prefix_cache;
  out.compression = spec.exchange.compression;
  if (spec.exchange.gate == GateSide::kAttention) out.gate = janus::GateSide::kAttention;
  if (spec.exchange.sum == SumRule::kFixedPoint) {
    out.sum = janus::SumRule::kFixedPoint;
    out.sums.bits = spec.exchange.sum_bits;
    for (const int32_t exponent : spec.exchange.sum_exponents) {
      out.sums.exponents.push_back(static_cast<int8_t>(exponent));
    }
  }
  out.fp8_kv_cache = spec.roles.attention.kv_cache.dtype == KvDtype::kFp8;
  return out;
}

}  // namespace janus::control
