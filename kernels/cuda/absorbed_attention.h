#pragma once

// Attention in the latent space on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class AbsorbedForm {
  // wgmma (absorbed_wgmma.h): a cache of bfloat16 or fp8 of rank 512 and rope 64, 64 heads or a
  // multiple of them, on sm_90a.
  kWgmma,
  // mma.sync (absorbed_fast.h): such a cache, up to 64 heads or a multiple of them.
  kFast,
  kPlain,  // everything; what the others are held to
};

// By number format, shape and architecture alone (DeviceHasWgmma), as AttentionFormFor. A GPU
// without the shared memory that the fast form takes, of another architecture therefore, has the
// plain one.
constexpr AbsorbedForm AbsorbedFormFor(const AbsorbedAttentionArgs& a, bool has_wgmma) {
  if (!HasAbsorbedStates(a.cache, a.heads)) return AbsorbedForm::kPlain;
  return has_wgmma && a.heads >= 64 ? AbsorbedForm::kWgmma : AbsorbedForm::kFast;
}

// Arguments are valid, as after kernels::AbsorbedAttention; a form that takes them.
Status RunAbsorbedAttention(const Stream& stream, const AbsorbedAttentionArgs& args,
                            AbsorbedForm form);

}  // namespace janus::kernels::cuda
