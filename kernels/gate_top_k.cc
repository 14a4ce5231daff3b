#include "kernels/kernels.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {

Status ValidateGateTopK(const GateTopKArgs& args) {
  const bool even =
      args.groups >= 1 && args.groups <= kMaxGroups && args.experts % args.groups == 0;
  const bool is_sigmoid = args.score == GateScore::kSigmoid;
  const bool of_chosen = args.score == GateScore::kSigmoidOfChosen;
  return std::move(
             Validator("GateTopK")
                 .InRange(args.rows, 0, kMaxExtent, "rows")
                 .InRange(args.hidden, 1, kMaxExtent, "hidden")
                 .InRange(args.experts, 1, kMaxExperts, "experts")
                 .InRange(args.top_k, 1, std::min(args.experts, kMaxTopK), "top_k")
                 .OneOf(args.x_dtype, kRowTypes, "x_dtype")
                 .OneOf(args.weight_dtype, kWeightTypes, "weight_dtype")
                 .True(args.score == GateScore::kSoftmax || is_sigmoid || of_chosen,
                       "score is unknown")
                 .True(!is_sigmoid || args.bias != nullptr, "bias is null; kSigmoid wants it")
                 .True(!of_chosen || (args.bias == nullptr && !args.renormalize),
                       "bias or renormalize is not of kSigmoidOfChosen")
                 .True(args.weight_scale > 0.0f, "weight_scale is not positive")
                 .True(even, "groups is not in 1..64 or does not divide experts")
                 .InRange(args.top_groups, 1, args.groups, "top_groups")
                 .True(!even || args.experts / args.groups * args.top_groups >= args.top_k,
                       "top_groups groups hold fewer than top_k experts")
                 .True(!is_sigmoid || args.groups < args.experts || args.top_groups == args.groups,
                       "groups of one expert have no two best")
                 .NotNull(args.x_rows, "x_rows")
                 .NotNull(args.weight, "weight")
                 .NotNull(args.logits, "logits")
                 .NotNull(args.ids, "ids")
                 .NotNull(args.weights, "weights")
                 .InRange(args.workspace_bytes, 0, INT64_MAX, "workspace_bytes")
                 .True(args.workspace != nullptr || args.workspace_bytes == 0,
                       "workspace is null but workspace_bytes is not 0")
                 .True(reinterpret_cast<uintptr_t>(args.workspace) % 64 == 0,
                       "workspace is not 64-byte aligned"))
      .Done();
}

Status GateTopK(const Stream& stream, const GateTopKArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("GateTopK", stream));
  if (args.rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(ValidateGateTopK(args));
  switch (stream.device) {
    case Device::kReference:
      GateTopKReference(args);
      return OkStatus();
    case Device::kCpu:
      GateTopKCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return GateTopKCuda(stream, args);
  }
  return InvalidArgument("GateTopK: unknown device");
}

}  // namespace janus::kernels
