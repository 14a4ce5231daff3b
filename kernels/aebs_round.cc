#include "kernels/aebs_round.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {

Status RouteRound(const Stream& stream, const RouteRoundArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("RouteRound", stream));
  if (stream.device != Device::kCuda) {
    return Unimplemented("RouteRound: the host schedules rounds without kernels (common/aebs.h)");
  }
  const GateTopKArgs& gate = args.gate;
  if (gate.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(ValidateGateTopK(gate));
  JANUS_RETURN_IF_ERROR(
      std::move(Validator("RouteRound")
                    .InRange(gate.rows * gate.top_k, 1, kMostRoutedIds, "rows * top_k")
                    .True(gate.experts == args.placement.experts,
                          "the gate has not as many experts as the placement")
                    .InRange(args.rank, 0, args.placement.instances - 1, "rank")
                    .InRange(args.slots, 1, kMostRoutedSlots, "slots")
                    .NotNull(args.tensors, "tensors")
                    .NotNull(args.first_rows, "first_rows")
                    .InRange(args.senders, 1, kMostRoutedSenders, "senders")
                    .NotNull(args.y, "y")
                    .InRange(args.y_row_bytes, 1, kMaxExtent, "y_row_bytes")
                    .NotNull(args.active, "active")
                    .NotNull(args.contributions, "contributions")
                    .NotNull(args.scratch, "scratch")
                    .InRange(args.scratch_bytes,
                             RouteRoundScratchBytes(gate.rows, gate.top_k, gate.experts,
                                                    args.placement.instances),
                             INT64_MAX, "scratch_bytes")
                    .True(reinterpret_cast<uintptr_t>(args.scratch) % 64 == 0,
                          "scratch is not 64-byte aligned"))
          .Done());
  return RouteRoundCuda(stream, args);
}

}  // namespace janus::kernels
