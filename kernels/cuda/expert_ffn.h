#pragma once

// The grouped expert FFN on the device, and which form of it a model has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class ExpertForm {
  kFast,   // tensor cores: bfloat16 rows and weights, H and I multiples of 8
  kPlain,  // everything; what the fast one is held to
};

// By number formats and shape alone, so that a model has one form, whatever rows a round brings.
constexpr ExpertForm ExpertFormFor(const GroupedExpertFfnArgs& a) {
  const bool is_bfloat16 = a.weight_dtype == DType::kBFloat16 && a.row_dtype == DType::kBFloat16;
  const bool in_chunks = a.hidden % 8 == 0 && a.intermediate % 8 == 0;
  return is_bfloat16 && in_chunks ? ExpertForm::kFast : ExpertForm::kPlain;
}

// Arguments are valid, as after kernels::GroupedExpertFfn; a form that takes them.
Status RunGroupedExpertFfn(const Stream& stream, const GroupedExpertFfnArgs& args, ExpertForm form);

}  // namespace janus::kernels::cuda
