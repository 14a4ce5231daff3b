#pragma once

// Attention over expanded keys and values on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/cuda/paged_attention.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

// By number formats and shape alone, as AttentionFormFor. A GPU without the shared memory that the
// fast form takes (expand_keys.h), of another architecture therefore, has the plain one.
constexpr AttentionForm ExpandedFormFor(const ExpandedAttentionArgs& a) {
  return HasSharedExpansion(a.cache, a.expand_dtype, a.nope_dim, a.value_dim)
             ? AttentionForm::kFast
             : AttentionForm::kPlain;
}

// Arguments are valid, as after kernels::ExpandedAttention; a form that takes them.
Status RunExpandedAttention(const Stream& stream, const ExpandedAttentionArgs& args,
                            AttentionForm form);

}  // namespace janus::kernels::cuda
