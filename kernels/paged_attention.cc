#include "kernels/kernels.h"

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

Status Validate(const PagedAttentionArgs& args) {
  const int64_t row = int64_t{args.heads} * args.cache.head_dim;
  return std::move(
             ValidateKvCache(Validator("PagedAttention"), args.cache)
                 .InRange(args.num_rows, 0, kMaxExtent, "num_rows")
                 .InRange(args.heads, 1, kMaxExtent, "heads")
                 .True(args.cache.kv_heads < 1 || args.heads % args.cache.kv_heads == 0,
                       "heads is not a multiple of cache.kv_heads")
                 .InRange(args.sliding_window, 0, kMaxExtent, "sliding_window")
                 .InRange(args.chunk, 0, kMaxExtent, "chunk")
                 .True(args.chunk == 0 || args.sliding_window == 0,
                       "chunk and sliding_window are both set")
                 .OneOf(args.y_dtype, kRowTypes, "y_dtype")
                 .True(args.query_stride == 0 || args.query_stride >= row,
                       "query_stride is shorter than a row")
                 .True(args.y_stride == 0 || args.y_stride >= row, "y_stride is shorter than a row")
                 .InRange(args.workspace_bytes, 0, INT64_MAX, "workspace_bytes")
                 .True(args.workspace != nullptr || args.workspace_bytes == 0,
                       "workspace is null but workspace_bytes is not 0")
                 .True(reinterpret_cast<uintptr_t>(args.workspace) % 64 == 0,
                       "workspace is not 64-byte aligned")
                 .NotNull(args.rows, "rows")
                 .NotNull(args.queries, "queries")
                 .NotNull(args.y, "y"))
      .Done();
}

}  // namespace

Status PagedAttention(const Stream& stream, const PagedAttentionArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("PagedAttention", stream));
  if (args.num_rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(args));
  JANUS_RETURN_IF_ERROR(ValidateKvRows("PagedAttention", stream, args.rows, args.num_rows));
  switch (stream.device) {
    case Device::kReference:
      PagedAttentionReference(args);
      return OkStatus();
    case Device::kCpu:
      PagedAttentionCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return PagedAttentionCuda(stream, args);
  }
  return InvalidArgument("PagedAttention: unknown device");
}

}  // namespace janus::kernels
