#include "kernels/kernels.h"

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/validate.h"

namespace janus::kernels {
namespace {

// Rows that the host can look into.
Status ValidateRows(const Stream& stream, const ExpandedAttentionArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateKvRows("ExpandedAttention", stream, args.rows, args.num_rows));
  if (stream.device == Device::kCuda || args.key_blocks == 0) return OkStatus();
  return std::move(Validator("ExpandedAttention")
                       .True(args.key_blocks >= KeyBlocksOf(args.rows, args.num_rows),
                             "key_blocks is less than what the rows see"))
      .Done();
}

Status Validate(const Stream& stream, const ExpandedAttentionArgs& args) {
  const int64_t head_dim = int64_t{args.nope_dim} + args.cache.rope;
  const int threads = stream.team == nullptr ? 1 : stream.team->size();
  const bool wants_blocks =
      stream.device == Device::kCuda &&
      HasSharedExpansion(args.cache, args.expand_dtype, args.nope_dim, args.value_dim);
  return std::move(ValidateLatentCache(Validator("ExpandedAttention"), args.cache)
                       .InRange(args.num_rows, 0, kMaxExtent, "num_rows")
                       .InRange(args.heads, 1, kMaxExtent, "heads")
                       .InRange(args.nope_dim, 1, kMaxHeadDim - args.cache.rope, "nope_dim")
                       .InRange(args.value_dim, 1, kMaxHeadDim, "value_dim")
                       .OneOf(args.expand_dtype, kWeightTypes, "expand_dtype")
                       .OneOf(args.y_dtype, kRowTypes, "y_dtype")
                       .True(args.query_stride == 0 || args.query_stride >= args.heads * head_dim,
                             "query_stride is shorter than a row")
                       .InRange(args.key_blocks, 0, kMaxExtent, "key_blocks")
                       .True(!wants_blocks || args.key_blocks > 0, "key_blocks is not told")
                       .NotNull(args.rows, "rows")
                       .NotNull(args.queries, "queries")
                       .NotNull(args.expand, "expand")
                       .NotNull(args.y, "y")
                       .NotNull(args.workspace, "workspace")
                       .True(reinterpret_cast<uintptr_t>(args.workspace) % 64 == 0,
                             "workspace is not 64-byte aligned")
                       .True(args.workspace_bytes >=
                                 ExpandedAttentionWorkspaceBytes(static_cast<int>(head_dim),
                                                                 args.value_dim, threads),
                             "workspace_bytes is less than ExpandedAttentionWorkspaceBytes"))
      .Done();
}

}  // namespace

int64_t KeyBlocksOf(const KvRow* rows, int64_t count) {
  int64_t blocks = 0;
  for (int64_t t = 0; t < count;) {
    const int32_t* const table = rows[t].block_table;
    int32_t last = 0;
    for (; t < count && rows[t].block_table == table; ++t) last = std::max(last, rows[t].position);
    blocks += last / kKeyBlock + 1;
  }
  return blocks;
}

Status ExpandedAttention(const Stream& stream, const ExpandedAttentionArgs& args) {
  JANUS_RETURN_IF_ERROR(ValidateStream("ExpandedAttention", stream));
  if (args.num_rows == 0) return OkStatus();
  JANUS_RETURN_IF_ERROR(Validate(stream, args));
  JANUS_RETURN_IF_ERROR(ValidateRows(stream, args));
  switch (stream.device) {
    case Device::kReference:
      ExpandedAttentionReference(args);
      return OkStatus();
    case Device::kCpu:
      ExpandedAttentionCpu(stream, args);
      return OkStatus();
    case Device::kCuda:
      return ExpandedAttentionCuda(stream, args);
  }
  return InvalidArgument("ExpandedAttention: unknown device");
}

}  // namespace janus::kernels
