#pragma once

// The grouped expert FFN on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class ExpertForm {
  // Tensor cores: rows in bfloat16; weights in bfloat16 with H and I multiples of 8, in fp8 with
  // multiples of 16, or in mxfp4.
  kFast,
  kPlain,  // everything; what the fast one is held to
};

// By number formats and shape alone, so that a model has one form, whatever rows a round brings.
constexpr ExpertForm ExpertFormFor(const GroupedExpertFfnArgs& a) {
  if (a.row_dtype != DType::kBFloat16) return ExpertForm::kPlain;
  if (a.weight_dtype == DType::kMxfp4) return ExpertForm::kFast;
  const bool is_float8 = a.weight_dtype == DType::kFloat8E4M3;
  if (!is_float8 && a.weight_dtype != DType::kBFloat16) return ExpertForm::kPlain;
  const int chunk = is_float8 ? 16 : 8;
  const bool in_chunks = a.hidden % chunk == 0 && a.intermediate % chunk == 0;
  return in_chunks ? ExpertForm::kFast : ExpertForm::kPlain;
}

// Arguments are valid, as after kernels::GroupedExpertFfn; a form that takes them.
Status RunGroupedExpertFfn(const Stream& stream, const GroupedExpertFfnArgs& args, ExpertForm form);

}  // namespace janus::kernels::cuda
