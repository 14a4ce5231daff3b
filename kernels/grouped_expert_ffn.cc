#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const GroupedExpertFfnArgs& args) {
  return std::move(Validator("GroupedExpertFfn")
                       .InRange(args.num_experts, 0, kMaxExtent, "num_experts")
                       .InRange(args.num_contributions, 0, kMaxExtent, "num_contributions")
                       .InRange(args.hidden, 1, kMaxExtent, "hidden")
                       .InRange(args.intermediate, 1, kMaxExtent, "intermediate")
                       .OneOf(args.weight_dtype, kExpertWeightTypes, "weight_dtype")
                       .True(args.weight_dtype != DType::kMxfp4 ||
                                 (args.hidden % kMxBlock == 0 && args.intermediate % kMxBlock == 0),
                             "hidden and intermediate are not multiples of 32, as Mxfp4 asks")
                       .OneOf(args.row_dtype, kRowTypes, "row_dtype")
                       .OneOf(args.y_dtype, kRowTypes, "y_dtype")
                       .True(args.swiglu_limit >= 0.0f, "swiglu_limit is negative")
                       .True(args.swiglu_limit == 0.0f || args.swiglu_alpha > 0.0f,
                             "swiglu_alpha is not positive")
                       .NotNull(args.experts, "experts")
                       .NotNull(args.contributions, "contributions")
                       .NotNull(args.workspace, "workspace")
                       .True(reinterpret_cast<uintptr_t>(args.workspace) % 64 == 0,
                             "workspace is not 64-byte aligned")
                       .True(args.workspace_bytes >=
                                 GroupedExpertFfnWorkspace::For(args.num_contributions,
                                                                args.intermediate, args.row_dtype)
                                     .bytes,
                             "workspace_bytes is less than GroupedExpertFfnWorkspace asks for"))
      .Done();
}

}  // namespace

Status GroupedExpertFfn(const Stream& stream, const GroupedExpertFfnArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("GroupedExpertFfn", stream));
  if (args.num_contributions == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  if (stream.device != Device::kCuda) {
    for (int64_t i = 0; i < args.num_experts; ++i) {
      const ActiveExpert& e = args.experts[i];
      JANUS_RETURN_IF_ERROR(
          std::move(Validator("GroupedExpertFfn")
                        .NotNull(e.gate, "gate of an expert")
                        .NotNull(e.up, "up of an expert")
                        .NotNull(e.down, "down of an expert")
                        .InRange(e.first, 0, args.num_contributions, "first")
                        .InRange(e.count, 0, args.num_contributions - e.first, "count"))
              .Done());
      if (args.has_bias) {
        JANUS_RETURN_IF_ERROR(std::move(Validator("GroupedExpertFfn")
                                            .NotNull(e.gate_bias, "gate_bias of an expert")
                                            .NotNull(e.up_bias, "up_bias of an expert")
                                            .NotNull(e.down_bias, "down_bias of an expert"))
                                  .Done());
      }
      if (args.weight_dtype != DType::kFloat8E4M3 && args.weight_dtype != DType::kMxfp4) continue;
      JANUS_RETURN_IF_ERROR(std::move(Validator("GroupedExpertFfn")
                                          .NotNull(e.gate_scales, "gate_scales of an expert")
                                          .NotNull(e.up_scales, "up_scales of an expert")
                                          .NotNull(e.down_scales, "down_scales of an expert"))
                                .Done());
    }
    for (int64_t i = 0; i < args.num_contributions; ++i) {
      JANUS_RETURN_IF_ERROR(std::move(Validator("GroupedExpertFfn")
                                          .NotNull(args.contributions[i].x, "x of a contribution")
                                          .NotNull(args.contributions[i].y, "y of a contribution"))
                                .Done());
    }
  }
  switch (stream.device) {
    case Device::kReference:
      GroupedExpertFfnReference(args);
      return OkStatus();
    case Device::kCpu:
      GroupedExpertFfnCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return GroupedExpertFfnCuda(stream, args);
  }
  return InvalidArgument("GroupedExpertFfn: unknown device");
}

}  // namespace janus::kernels
