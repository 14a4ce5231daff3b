#include "cli/plan/service_spec.h"

#include <algorithm>
#include <array>

#include "common/read_file.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/api/yaml.h"

namespace janus::cli {

Result<control::MoEServiceSpec> ReadServiceSpec(const std::string& file) {
  constexpr int64_t kMaxBytes = 1 << 20;
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(file, kMaxBytes));
  JANUS_ASSIGN_OR_RETURN(const control::Node root, control::ParseYaml(text, file));
  control::ParsedService parsed = control::ParseMoEService(root);
  control::FieldErrors errors = control::ValidateRead(root, parsed);
  if (!errors.empty()) {
    control::AddLines(root, errors);
    return InvalidArgument(control::FormatErrors(file, errors));
  }
  return std::move(parsed.object.spec);
}

void FillSetting(const control::MoEServiceSpec& spec, SettingOptions& setting) {
  if (spec.model.source.host_path) setting.model = spec.model.source.host_path->path;
  if (!spec.roles.attention.hardware_profile.empty()) {
    setting.attention_hardware = spec.roles.attention.hardware_profile;
  }
  if (!spec.roles.experts.hardware_profile.empty()) {
    setting.expert_hardware = spec.roles.experts.hardware_profile;
  }
  if (spec.roles.attention.kv_cache.dtype == control::KvDtype::kFp8) setting.fp8_kv_cache = true;
}

void FillExchange(const control::MoEServiceSpec& spec, controllers::PlanPins& pins,
                  ExchangeOptions& options) {
  const control::ExchangeSpec& exchange = spec.exchange;
  switch (exchange.mode) {
    case control::ExchangeMode::kAuto:
      break;
    case control::ExchangeMode::kDirect:
      pins.mode = ExchangeMode::kDirect;
      break;
    case control::ExchangeMode::kTwoPhaseSingle:
      pins.mode = ExchangeMode::kTwoPhaseSingle;
      break;
    case control::ExchangeMode::kTwoPhaseParallel:
      pins.mode = ExchangeMode::kTwoPhaseParallel;
      break;
  }
  if (exchange.gate != control::GateSide::kAuto) {
    pins.gate =
        exchange.gate == control::GateSide::kAttention ? GateSide::kAttention : GateSide::kExperts;
  }
  if (exchange.sum != control::SumRule::kAuto) {
    pins.sum = exchange.sum == control::SumRule::kFixedPoint ? SumRule::kFixedPoint
                                                             : SumRule::kContributions;
  }
  if (exchange.compression == Compression::kFp8) {
    pins.wire = controllers::WireFormat::kFp8;
  }
  options.sum_bits = exchange.sum_bits;
  if (exchange.host_shared) return;
  options.attention_per_node = spec.roles.attention.instances_per_pod;
  options.experts_per_node = spec.roles.experts.instances_per_pod;
}

void FillPlan(const control::MoEServiceSpec& spec, PlanOptions& options) {
  FillSetting(spec, options.setting);
  const control::AttentionSpec& attention = spec.roles.attention;
  const control::ExpertsSpec& experts = spec.roles.experts;
  if (spec.slo.tpot) options.tpot_milliseconds = spec.slo.tpot->target_milliseconds;
  if (spec.slo.ttft) {
    options.ttft_seconds = spec.slo.ttft->target_milliseconds / 1e3;
    options.ttft_percentile = ShareOf(spec.slo.ttft->percentile);
  }
  options.max_batch_per_attention = attention.max_batch_size;
  options.instances_per_pod = std::max(attention.instances_per_pod, experts.instances_per_pod);
  options.survivable = experts.placement.survivable;
  const auto bound = [](const control::RoleSpec& role, int& gpus) {
    if (role.scaling && role.scaling->max_replicas) {
      gpus = *role.scaling->max_replicas * role.tensor_parallel;
    }
  };
  bound(attention, options.max_attention_gpus);
  bound(experts, options.max_expert_gpus);
  options.max_gpus = spec.scaling.max_gpus.value_or(0);
  FillExchange(spec, options.pins, options.exchange);
  if (spec.pipeline.micro_batches > 0) options.pins.micro_batches = spec.pipeline.micro_batches;
  options.pins.tp_attention = attention.tensor_parallel;
  options.pins.tp_experts = experts.tensor_parallel;
}

void FillPlace(const control::MoEServiceSpec& spec, PlaceOptions& options) {
  const control::AttentionSpec& attention = spec.roles.attention;
  const control::ExpertsSpec& experts = spec.roles.experts;
  if (spec.model.source.host_path) options.model = spec.model.source.host_path->path;
  if (experts.replicas) options.instances = *experts.replicas;
  // Here spare slots are included.
  if (experts.slots_per_instance) {
    options.slots_per_instance = *experts.slots_per_instance + experts.spare_slots;
  }
  options.spare_slots = experts.spare_slots;
  options.instances_per_pod = experts.instances_per_pod;
  options.survivable = experts.placement.survivable;
  options.greedy = experts.scheduling == control::Scheduling::kAebsGreedy;
  if (attention.replicas) {
    options.batch = std::min(*attention.replicas * attention.max_batch_size, kMostPlacedBatch);
  }
}

}  // namespace janus::cli
