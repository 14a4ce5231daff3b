// The gate: its two forms, which of them runs, and the fast one with AEBS behind it.

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
  ListWorkArgs list = args.list;
  list.replicas = schedule.replicas;
  list.weights = gate.weights;
  list.x_rows = gate.x_rows;
  list.count = schedule.count;
  list.top_k = gate.top_k;
  list.live_rows = schedule.live_rows;
  if (gate.rows != 0) JANUS_RETURN_IF_ERROR(ValidateGateTopK(gate));
  JANUS_RETURN_IF_ERROR(ValidateScheduleExperts(schedule));
  JANUS_RETURN_IF_ERROR(std::move(Validator("GateAndSchedule")
                                      .True(gate.experts == schedule.placement.experts,
                                            "the gate has not as many experts as the placement")
                                      .True(list.active == nullptr || list.count <= kMostListed,
                                            "more ids than lists have places for")
                                      .NotNull(args.arrived, "arrived"))
                            .Done());
  const bool is_one = gate.rows > 0 && GateFormFor(gate) == GateForm::kFast &&
                      GateRowsAtOnce(gate) == gate.rows && schedule.count <= kOneBlockIds &&
                      schedule.form == ScheduleForm::kFast && FitsFastSchedule(schedule.placement);
  if (!is_one) {
    if (gate.rows != 0) JANUS_RETURN_IF_ERROR(RunGateTopK(stream, gate, GateFormFor(gate)));
    JANUS_RETURN_IF_ERROR(ScheduleExperts(stream, schedule));
    if (list.active == nullptr || list.count == 0) return OkStatus();
    return Start("ListWork", stream, ListWorkKernel{list}, PlanListWork(list));
  }
  auto* const partial = static_cast<float*>(gate.workspace);
  JANUS_RETURN_IF_ERROR(Start("GateAndSchedule", stream,
                              FastGateLogitsKernel{gate, partial, args.arrived},
                              PlanFastGateLogits(gate, true)));
  return Start("GateAndSchedule", stream,
               GateAndScheduleKernel{gate, partial, GatePieces(gate), schedule, list, args.arrived},
               PlanGateAndSchedule(gate, schedule, list));
}

namespace {

// What AEBS leaves behind, in the scratch of a call.
struct RouteScratch {
  Replica* replicas;    // [T*k]
  Replica* replica_of;  // [E]
  int32_t* load;        // [n]
  int32_t* num_activated;
  uint32_t* arrived;
  uint16_t* activated;  // [E]
  static RouteScratch In(const RouteRoundArgs& a) {
    RouteScratch s;
    s.replicas = static_cast<Replica*>(a.scratch);
    s.replica_of = s.replicas + a.gate.rows * a.gate.top_k;
    s.load = reinterpret_cast<int32_t*>(s.replica_of + a.gate.experts);
    s.num_activated = s.load + a.placement.instances;
    s.arrived = reinterpret_cast<uint32_t*>(s.num_activated + 1);
    s.activated = reinterpret_cast<uint16_t*>(s.arrived + 1);
    return s;
  }
};

}  // namespace

}  // namespace cuda

Status RouteRoundCuda(const Stream& stream, const RouteRoundArgs& args) {
  const cuda::RouteScratch scratch = cuda::RouteScratch::In(args);
  cuda::GateAndScheduleArgs all;
  all.gate = args.gate;
  all.schedule.policy = args.policy;
  all.schedule.placement = args.placement;
  all.schedule.live_rows = {args.live_rows, args.gate.top_k};
  all.schedule.replicas = scratch.replicas;
  all.schedule.replica_of = scratch.replica_of;
  all.schedule.load = scratch.load;
  all.schedule.activated = scratch.activated;
  all.schedule.num_activated = scratch.num_activated;
  all.arrived = scratch.arrived;
  all.list.rank = args.rank;
  all.list.slots = args.slots;
  all.list.tensors = args.tensors;
  all.list.first_rows = args.first_rows;
  all.list.senders = args.senders;
  all.list.y = args.y;
  all.list.y_row_bytes = args.y_row_bytes;
  all.list.contributions = args.contributions;
  all.list.active = args.active;
  return cuda::GateAndSchedule(stream, all);
}

Status GateTopKCuda(const Stream& stream, const GateTopKArgs& args) {
  return cuda::RunGateTopK(stream, args, cuda::GateFormFor(args));
}

}  // namespace janus::kernels
