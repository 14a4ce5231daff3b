#include "operator/members/worker_config.h"

#include "proto/convert.h"

namespace janus::control {
namespace {

PrefixSharing SharingOf(PrefixCache cache) {
  switch (cache) {
    case PrefixCache::kAuto:
    case PrefixCache::kExact:
      return PrefixSharing::kExact;
    case PrefixCache::kReuse:
      return PrefixSharing::kReuse;
    case PrefixCache::kDisabled:
      return PrefixSharing::kDisabled;
  }
  return PrefixSharing::kExact;
}

}  // namespace

v1::WorkerConfig WorkerConfigOf(const ServicePlan& plan, int machine_threads,
                                bool debug_logits_hash) {
  constexpr uint32_t kBlockSize = 16;
  v1::WorkerConfig config;
  config.set_dtype(ToProto(plan.dtype));
  config.set_kv_block_size(kBlockSize);
  config.set_queued_requests(static_cast<uint32_t>(plan.queued_requests));
  config.set_scheduling(ToProto(plan.effective.scheduling));
  config.set_prefix_sharing(ToProto(SharingOf(plan.effective.prefix_cache)));
  config.set_crossover_rows(static_cast<uint32_t>(plan.crossover_rows));
  config.set_compute_threads(static_cast<uint32_t>(plan.compute_threads));
  config.set_machine_threads(static_cast<uint32_t>(machine_threads));
  config.set_debug_logits_hash(debug_logits_hash);
  config.set_fp8_kv_cache(plan.effective.fp8_kv_cache);
  config.set_compression(ToProto(plan.effective.compression));
  if (plan.effective.sums.on()) *config.mutable_fixed_sums() = ToProto(plan.effective.sums);
  config.set_tpot_target_ms(static_cast<uint32_t>(plan.tpot_target_milliseconds));
  if (plan.timed) *config.mutable_timed() = ToProto(*plan.timed);
  return config;
}

}  // namespace janus::control
