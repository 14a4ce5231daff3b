#pragma once

// The grouped expert FFN on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class ExpertForm {
  // wgmma (expert_ffn_wgmma.h): what kFast takes, on sm_90a.
  kWgmma,
  // Tensor cores: rows in bfloat16; weights in bfloat16 with H and I multiples of 8, in fp8 with
  // multiples of 16, or in mxfp4; silu, no biases, weighed outputs.
  kFast,
  kPlain,  // everything; what the others are held to
};

// By the model and the architecture (DeviceHasWgmma) alone, so that a model has one form, whatever
// rows a round brings.
constexpr ExpertForm ExpertFormFor(const GroupedExpertFfnArgs& a, bool has_wgmma) {
  const bool is_plain = a.has_bias || a.swiglu_limit > 0.0f || a.weighs_inputs;
  if (a.row_dtype != DType::kBFloat16 || is_plain) return ExpertForm::kPlain;
  const ExpertForm form = has_wgmma ? ExpertForm::kWgmma : ExpertForm::kFast;
  if (a.weight_dtype == DType::kMxfp4) return form;
  const bool is_float8 = a.weight_dtype == DType::kFloat8E4M3;
  if (!is_float8 && a.weight_dtype != DType::kBFloat16) return ExpertForm::kPlain;
  const int chunk = is_float8 ? 16 : 8;
  const bool in_chunks = a.hidden % chunk == 0 && a.intermediate % chunk == 0;
  return in_chunks ? form : ExpertForm::kPlain;
}

// How wgmma deals a call into blocks, which shows in no bit.
enum class WgmmaTiles {
  kByRows,  // by the rows that there are likely to be
  kNarrow,
  kWide,  // at most kMostWideExperts experts
};

// Arguments are valid, as after kernels::GroupedExpertFfn; a form that takes them. `tiles` and, if
// it is not 0, the number of blocks of wide ones: for tests.
Status RunGroupedExpertFfn(const Stream& stream, const GroupedExpertFfnArgs& args, ExpertForm form,
                           WgmmaTiles tiles = WgmmaTiles::kByRows, int64_t wide_blocks = 0);

}  // namespace janus::kernels::cuda
