#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const AbsorbedAttentionArgs& args) {
  const int64_t head_stride =
      args.rope_query_head_stride != 0 ? args.rope_query_head_stride : args.cache.rope;
  return std::move(ValidateLatentCache(Validator("AbsorbedAttention"), args.cache)
                       .InRange(args.num_rows, 0, kMaxExtent, "num_rows")
                       .InRange(args.heads, 1, kMaxExtent, "heads")
                       .True(args.rope_query_head_stride == 0 ||
                                 args.rope_query_head_stride >= args.cache.rope,
                             "rope_query_head_stride is shorter than a head")
                       .True(args.rope_query_row_stride == 0 ||
                                 args.rope_query_row_stride >=
                                     int64_t{args.heads - 1} * head_stride + args.cache.rope,
                             "rope_query_row_stride is shorter than a row")
                       .True(args.scale > 0.0f, "scale is not above 0")
                       .InRange(args.workspace_bytes, 0, INT64_MAX, "workspace_bytes")
                       .True(args.workspace != nullptr || args.workspace_bytes == 0,
                             "workspace is null but workspace_bytes is not 0")
                       .True(reinterpret_cast<uintptr_t>(args.workspace) % 64 == 0,
                             "workspace is not 64-byte aligned")
                       .NotNull(args.rows, "rows")
                       .NotNull(args.latent_queries, "latent_queries")
                       .NotNull(args.rope_queries, "rope_queries")
                       .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status AbsorbedAttention(const Stream& stream, const AbsorbedAttentionArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("AbsorbedAttention", stream));
  if (args.num_rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  JANUS_RETURN_IF_ERROR(ValidateKvRows("AbsorbedAttention", stream, args.rows, args.num_rows));
  switch (stream.device) {
    case Device::kReference:
      AbsorbedAttentionReference(args);
      return OkStatus();
    case Device::kCpu:
      AbsorbedAttentionCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return AbsorbedAttentionCuda(stream, args);
  }
  return InvalidArgument("AbsorbedAttention: unknown device");
}

}  // namespace janus::kernels
