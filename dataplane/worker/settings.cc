#include "dataplane/worker/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>

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
  return InvalidArgument("config.isa '" + wanted + "': want one of " + known);
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
  return ResourceExhausted(what + ": " + std::to_string(bytes) + " bytes, this machine has " +
                           std::to_string(machine_bytes));
}

Result<WorkerSettings> ResolveSettings(const v1::WorkerConfig& config, ModelDescription& model,
                                       const kernels::CpuFeatures& cpu, int64_t machine_bytes) {
  WorkerSettings settings;
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
                           ": the CPU kernels hold " + std::to_string(kernels::kPageTokens) +
                           " positions per page");
  }
  if (config.max_model_len() > INT32_MAX || config.max_batch_size() > INT32_MAX ||
      config.queued_requests() > INT32_MAX) {
    return InvalidArgument("config: a size is out of range");
  }
  JANUS_RETURN_IF_ERROR(CheckFits("config.kv_bytes", config.kv_bytes(), machine_bytes));
  JANUS_RETURN_IF_ERROR(CheckFits("config.swap_bytes", config.swap_bytes(), machine_bytes));
  JANUS_ASSIGN_OR_RETURN(settings.isa, ResolveIsa(config.isa(), cpu));
  StepDeadlines deadlines;
  if (config.detection_deadline_ms() != 0) {
    deadlines.detection = deadlines.least_detection =
        Seconds(config.detection_deadline_ms() / 1000.0);
  }
  // A member that is only slow has had as long again to answer, and what it was told twice.
  deadlines.loss = 2 * deadlines.detection;

  AttentionOptions& attention = settings.attention;
  attention.max_batch = static_cast<int>(OrDefault(config.max_batch_size(), 256u));
  attention.max_waiting = static_cast<int>(OrDefault(config.queued_requests(), 4096u));
  attention.max_model_len = static_cast<int64_t>(config.max_model_len());
  attention.kv_bytes = static_cast<int64_t>(OrDefault(config.kv_bytes(), uint64_t{1} << 30));
  attention.swap_bytes = OrDefault(static_cast<int64_t>(config.swap_bytes()), attention.kv_bytes);
  attention.tpot_target = Seconds(OrDefault(config.tpot_target_ms(), 100u) / 1000.0);
  attention.deadlines = deadlines;
  attention.logits_hashes = config.debug_logits_hash();

  JANUS_ASSIGN_OR_RETURN(settings.experts.scheduling, FromProto(config.scheduling()));
  settings.experts.deadlines = deadlines;
  return settings;
}

}  // namespace janus::dataplane
