#pragma once

// Attention over paged keys and values on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class AttentionForm {
  // Tensor cores: a cache of bfloat16 or fp8, results in bfloat16, heads of 64, 128, 256, no sinks,
  // no chunks.
  kFast,
  kPlain,  // everything; what the fast one is held to
};

// Queries that read a kv head and share a tile, at most.
constexpr int MostColumns(int head_dim) {
  return head_dim <= 128 ? 32 : 16;
}

// By the model alone, so that it has one form, whatever rows a round brings and however long their
// contexts are. The queries that share a kv head are columns of one tile.
constexpr AttentionForm AttentionFormFor(const PagedAttentionArgs& a) {
  const bool has_format =
      (a.cache.dtype == DType::kBFloat16 || a.cache.dtype == DType::kFloat8E4M3) &&
      a.y_dtype == DType::kBFloat16;
  const int width = a.cache.head_dim;
  const bool has_width = width == 64 || width == 128 || width == 256;
  const bool fits = a.heads / a.cache.kv_heads <= MostColumns(width);
  const bool is_fast = has_format && has_width && fits && a.sinks == nullptr && a.chunk == 0;
  return is_fast ? AttentionForm::kFast : AttentionForm::kPlain;
}

// Arguments are valid, as after kernels::PagedAttention; a form that takes them.
Status RunPagedAttention(const Stream& stream, const PagedAttentionArgs& args, AttentionForm form);

}  // namespace janus::kernels::cuda
