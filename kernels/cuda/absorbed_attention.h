#pragma once

// Attention in the latent space on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/cuda/paged_attention.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

// By number format and shape alone, as AttentionFormFor. A GPU without the shared memory that the
// fast form takes (absorbed_fast.h), of another architecture therefore, has the plain one.
constexpr AttentionForm AbsorbedFormFor(const AbsorbedAttentionArgs& a) {
  return HasAbsorbedStates(a.cache, a.heads) ? AttentionForm::kFast : AttentionForm::kPlain;
}

// Arguments are valid, as after kernels::AbsorbedAttention; a form that takes them.
Status RunAbsorbedAttention(const Stream& stream, const AbsorbedAttentionArgs& args,
                            AttentionForm form);

}  // namespace janus::kernels::cuda
