#pragma once

// Projections on the device, and which form of them a matrix has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class LinearForm {
  kFast,   // tensor cores: bfloat16 rows and weights, K a multiple of 8
  kPlain,  // everything; what the fast one is held to
};

// By number formats and shape alone, so that a matrix has one form, whatever rows a step brings.
constexpr LinearForm LinearFormFor(const LinearArgs& a) {
  const bool is_bfloat16 = a.x_dtype == DType::kBFloat16 && a.weight_dtype == DType::kBFloat16;
  return is_bfloat16 && a.inputs % 8 == 0 ? LinearForm::kFast : LinearForm::kPlain;
}

// Arguments are valid, as after kernels::Linear; a form that takes them.
Status RunLinear(const Stream& stream, const LinearArgs& args, LinearForm form);

}  // namespace janus::kernels::cuda
