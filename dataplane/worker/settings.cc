#include "dataplane/worker/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/prompt_share.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

Result<kernels::Isa> ResolveIsa(const std::string& wanted, const kernels::CpuFeatures& cpu) {
  if (wanted.empty()) return kernels::SelectIsa(cpu);
  constexpr std::array kIsas{kernels::Isa::kAvx2, kernels::Isa::kAvx512, kernels::Isa::kAvx512Bf16};
  std::string known;
  for (const kernels::Isa isa : kIsas) {
    if (wanted == kernels::ToString(isa)) return kernels::SelectIsa(cpu, isa);
    known += (known.empty() ? "" : ", ") + std::string(kernels::ToString(isa));
  }
  return InvalidArgument("config.isa '" + wanted + "' is unknown; want one of " + known);
}

Result<FixedPointSums> ResolveSums(const v1::WorkerConfig& config, const ModelDescription& model) {
  JANUS_ASSIGN_OR_RETURN(FixedPointSums sums, FromProto(config.fixed_sums()));
  const Status valid = Validate(sums, model.moe_layers(), model.moe.top_k);
  if (!valid.ok()) return InvalidArgument("config.fixed_sums: " + valid.message());
  return sums;
}

template <class T>
T OrDefault(T given, T otherwise) {
  return given != 0 ? given : otherwise;
}

}  // namespace

int64_t MachineBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

Status CheckFits(const std::string& what, uint64_t bytes, int64_t machine_bytes) {
  if (bytes <= static_cast<uint64_t>(machine_bytes)) return OkStatus();
  return ResourceExhausted(what + ": needs " + std::to_string(bytes) +
                           " bytes, but this machine has " + std::to_string(machine_bytes));
}

Result<InstanceSettings> ResolveInstanceSettings(const v1::WorkerConfig& config,
                                                 const SequenceRoom& room, ModelDescription& model,
                                                 kernels::Context& context,
                                                 const kernels::CpuFeatures& cpu,
                                                 int64_t machine_bytes) {
  InstanceSettings settings;
  switch (config.dtype()) {
    case v1::DTYPE_UNSPECIFIED:
      break;
    case v1::DTYPE_FLOAT32:
      model.dtype = DType::kFloat32;
      break;
    case v1::DTYPE_BFLOAT16:
      model.dtype = DType::kBFloat16;
      break;
    case v1::DTYPE_FLOAT16:
      model.dtype = DType::kFloat16;
      break;
    default:
      return InvalidArgument("config.dtype: unknown to this version");
  }
  if (config.kv_block_size() != 0 && config.kv_block_size() != kernels::kPageTokens) {
    return InvalidArgument("config.kv_block_size " + std::to_string(config.kv_block_size()) +
                           "; want " + std::to_string(kernels::kPageTokens) +
                           ", the positions in a page of the kernels");
  }
  if (context.is_host()) {
    JANUS_RETURN_IF_ERROR(
        CheckFits("sequences.kv_bytes", static_cast<uint64_t>(room.kv_bytes), machine_bytes));
    JANUS_ASSIGN_OR_RETURN(settings.isa, ResolveIsa(config.isa(), cpu));
  } else if (!config.isa().empty()) {
    return InvalidArgument("config.isa '" + config.isa() +
                           "' is for CPUs; this worker computes on " + context.numerics());
  }
  AttentionOptions& attention = settings.attention;
  attention.max_batch = OrDefault(room.max_batch_size, 256);
  attention.max_model_len = room.max_model_len;
  attention.kv_bytes = OrDefault(room.kv_bytes, int64_t{1} << 30);
  attention.swap_bytes = OrDefault(room.swap_bytes, attention.kv_bytes);
  JANUS_RETURN_IF_ERROR(CheckFits("sequences.swap_bytes",
                                  static_cast<uint64_t>(attention.swap_bytes), machine_bytes));
  attention.prefix_host_bytes = room.prefix_host_bytes;
  if (attention.prefix_host_bytes > 0 && context.is_host()) {
    return InvalidArgument(
        "sequences.prefix_host_bytes " + std::to_string(room.prefix_host_bytes) +
        ": this worker computes on CPUs, and has all keys and values in host memory");
  }
  JANUS_RETURN_IF_ERROR(CheckFits("sequences.prefix_host_bytes",
                                  static_cast<uint64_t>(room.prefix_host_bytes), machine_bytes));
  attention.fp8_cache = config.fp8_kv_cache();
  JANUS_ASSIGN_OR_RETURN(settings.compression, FromProto(config.compression()));
  JANUS_ASSIGN_OR_RETURN(settings.sums, ResolveSums(config, model));
  attention.logits_hashes = config.debug_logits_hash();
  attention.context = &context;
  return settings;
}

Result<EpochSettings> ResolveEpoch(const v1::WorkerConfig& config) {
  EpochSettings settings;
  if (config.queued_requests() > INT32_MAX) {
    return InvalidArgument("config.queued_requests " + std::to_string(config.queued_requests()) +
                           "; want at most " + std::to_string(INT32_MAX));
  }
  StepDeadlines& deadlines = settings.attention.deadlines;
  if (config.detection_deadline_ms() != 0) {
    deadlines.detection = deadlines.least_detection =
        Seconds(config.detection_deadline_ms() / 1000.0);
  }
  // A slow member gets the same time again to answer.
  deadlines.loss = 2 * deadlines.detection;
  deadlines.least_loss = Seconds(1.0);
  settings.attention.max_waiting = static_cast<int>(OrDefault(config.queued_requests(), 4096u));
  settings.attention.prompt_step =
      Seconds(kPromptShareOfTpot * OrDefault(config.tpot_target_ms(), 100u) / 1000.0);
  JANUS_ASSIGN_OR_RETURN(settings.attention.prefixes, FromProto(config.prefix_sharing()));
  JANUS_ASSIGN_OR_RETURN(settings.scheduling, FromProto(config.scheduling()));
  if (config.crossover_rows() > kMaxCrossoverRows) {
    return InvalidArgument("config.crossover_rows " + std::to_string(config.crossover_rows()) +
                           "; want at most " + std::to_string(kMaxCrossoverRows));
  }
  settings.crossover_rows = static_cast<int>(config.crossover_rows());
  return settings;
}

}  // namespace janus::dataplane
