#pragma once

// The gate on the device: which form of it a model has, and the gate and AEBS as one operation.

#include <cstdint>

#include "common/status.h"
#include "kernels/cuda/aebs.h"
#include "kernels/cuda/list_work.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class GateForm {
  // Tensor cores: bfloat16 rows and weights, H a multiple of 8, logits without bias, a score other
  // than kSigmoidOfChosen.
  kFast,
  kPlain,  // everything; what the fast one is held to
};

// Depends on the model alone, so it has one form, whatever rows a round brings.
constexpr GateForm GateFormFor(const GateTopKArgs& a) {
  const bool is_bfloat16 = a.weight_dtype == DType::kBFloat16 && a.x_dtype == DType::kBFloat16;
  const bool has_logit_bias = a.score == GateScore::kSoftmax && a.bias != nullptr;
  const bool is_fast =
      is_bfloat16 && a.hidden % 8 == 0 && !has_logit_bias && a.score != GateScore::kSigmoidOfChosen;
  return is_fast ? GateForm::kFast : GateForm::kPlain;
}

// Arguments are valid, as after kernels::GateTopK; a form that takes them.
Status RunGateTopK(const Stream& stream, const GateTopKArgs& args, GateForm form);

struct GateAndScheduleArgs {
  GateTopKArgs gate;  // its workspace, for all rows, makes it two launches
  // Its ids and count are ignored; the gate's count.
  ScheduleExpertsArgs schedule;
  uint32_t* arrived = nullptr;  // one word, which no other call uses meanwhile
  // Its replicas, weights, count and live rows are ignored; those of the gate and the schedule
  // count. Nothing is listed if `active` is null.
  ListWorkArgs list = {};
};
// GateTopK, then ScheduleExperts of the chosen ids, then, if asked for, the lists of one instance's
// work. Bits and results are those of separate calls. If the gate and AEBS have their fast forms,
// and AEBS takes one block, all of it is two launches; otherwise each operation has its own.
// InvalidArgument: as from both, different numbers of experts, or a null `arrived`. Without rows:
// AEBS of no ids.
Status GateAndSchedule(const Stream& stream, const GateAndScheduleArgs& args);

}  // namespace janus::kernels::cuda
