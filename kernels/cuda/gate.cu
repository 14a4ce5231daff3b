// The router: its two forms, which of them runs, and the fast one with AEBS behind it.

#include "kernels/cuda/gate.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cuda/gate_fast.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/start.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace cuda {
namespace {

constexpr std::string_view kName = "GateTopK";

// The rows of a call from `first` on.
GateTopKArgs Part(const GateTopKArgs& args, int64_t first, int64_t rows) {
  GateTopKArgs part = args;
  part.x_rows = args.x_rows + first;
  part.logits = args.logits + first * args.experts;
  part.ids = args.ids + first * args.top_k;
  part.weights = args.weights + first * args.top_k;
  part.rows = rows;
  return part;
}

Status RunFast(const Stream& stream, const GateTopKArgs& args) {
  const int64_t at_once = GateRowsAtOnce(args);
  if (at_once == 0) {
    JANUS_RETURN_IF_ERROR(
        Start(kName, stream, FastGateLogitsKernel{args}, PlanFastGateLogits(args, false)));
    return Start(kName, stream, FastGateChoiceKernel{args}, PlanFastGateChoice(args, false));
  }
  auto* const partial = static_cast<float*>(args.workspace);
  for (int64_t first = 0; first < args.rows; first += at_once) {
    const GateTopKArgs part = Part(args, first, std::min(args.rows - first, at_once));
    JANUS_RETURN_IF_ERROR(
        Start(kName, stream, FastGateLogitsKernel{part, partial}, PlanFastGateLogits(part, true)));
    JANUS_RETURN_IF_ERROR(Start(kName, stream,
                                FastGateChoiceKernel{part, partial, GatePieces(part)},
                                PlanFastGateChoice(part, true)));
  }
  return OkStatus();
}

}  // namespace

Status RunGateTopK(const Stream& stream, const GateTopKArgs& args, GateForm form) {
  if (form == GateForm::kFast) return RunFast(stream, args);
  JANUS_RETURN_IF_ERROR(Start(kName, stream, GateLogitsKernel{args}, PlanGateLogits(args)));
  return Start(kName, stream, GateChoiceKernel{args}, PlanGateChoice(args));
}

Status GateAndSchedule(const Stream& stream, const GateAndScheduleArgs& args) {
  const GateTopKArgs& gate = args.gate;
  ScheduleExpertsArgs schedule = args.schedule;
  schedule.ids = gate.ids;
  schedule.count = gate.rows * gate.top_k;
  if (gate.rows != 0) JANUS_RETURN_IF_ERROR(ValidateGateTopK(gate));
  JANUS_RETURN_IF_ERROR(ValidateScheduleExperts(schedule));
  JANUS_RETURN_IF_ERROR(std::move(Validator("GateAndSchedule")
                                      .True(gate.experts == schedule.placement.experts,
                                            "the gate has not as many experts as the placement")
                                      .NotNull(args.arrived, "arrived"))
                            .Done());
  const bool is_one = gate.rows > 0 && GateFormFor(gate) == GateForm::kFast &&
                      GateRowsAtOnce(gate) == gate.rows && schedule.count <= kOneBlockIds &&
                      schedule.form == ScheduleForm::kFast && FitsFastSchedule(schedule.placement);
  if (!is_one) {
    if (gate.rows != 0) JANUS_RETURN_IF_ERROR(RunGateTopK(stream, gate, GateFormFor(gate)));
    return ScheduleExperts(stream, schedule);
  }
  auto* const partial = static_cast<float*>(gate.workspace);
  JANUS_RETURN_IF_ERROR(Start("GateAndSchedule", stream,
                              FastGateLogitsKernel{gate, partial, args.arrived},
                              PlanFastGateLogits(gate, true)));
  return Start("GateAndSchedule", stream,
               GateAndScheduleKernel{gate, partial, GatePieces(gate), schedule, args.arrived},
               PlanGateAndSchedule(gate, schedule));
}

}  // namespace cuda

Status GateTopKCuda(const Stream& stream, const GateTopKArgs& args) {
  return cuda::RunGateTopK(stream, args, cuda::GateFormFor(args));
}

}  // namespace janus::kernels
