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
  kFast,   // tensor cores: bfloat16 rows and weights, H a multiple of 8
  kPlain,  // everything; what the fast one is held to
};

// By number formats and shape alone, so that a model has one form, whatever rows a round brings.
constexpr GateForm GateFormFor(const GateTopKArgs& a) {
  const bool is_bfloat16 = a.weight_dtype == DType::kBFloat16 && a.x_dtype == DType::kBFloat16;
  return is_bfloat16 && a.hidden % 8 == 0 ? GateForm::kFast : GateForm::kPlain;
}

// Arguments are valid, as after kernels::GateTopK; a form that takes them.
Status RunGateTopK(const Stream& stream, const GateTopKArgs& args, GateForm form);

struct GateAndScheduleArgs {
  GateTopKArgs gate;  // its workspace, for all rows, makes it two launches
  // Its ids and count are the gate's, whatever stands there.
  ScheduleExpertsArgs schedule;
  uint32_t* arrived = nullptr;  // one word, which no other call uses meanwhile
  // Its replicas, weights, count and live rows are those of the two, whatever stands there; none
  // is listed where `active` is null.
  ListWorkArgs list = {};
};
// GateTopK, ScheduleExperts of the ids that it chose, and where it is asked for the lists of one
// instance's work, with the bits and results of one after the other. Two launches for the gate's
// fast form where AEBS is one block in its fast form; else the launches of both, and of the lists.
// InvalidArgument as from both, for different numbers of experts and where `arrived` is null. No
// rows: AEBS of no ids.
Status GateAndSchedule(const Stream& stream, const GateAndScheduleArgs& args);

}  // namespace janus::kernels::cuda
