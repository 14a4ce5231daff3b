#pragma once

// Projections on the device, of a row's whole width and of each head alone, and which form a matrix
// has.

#include "common/status.h"
#include "kernels/kernels.h"
#include "kernels/stream.h"

namespace janus::kernels::cuda {

enum class LinearForm {
  kFast,   // tensor cores: bfloat16 weights, K a multiple of 8; rows too, or rounded to it
  kPlain,  // everything; what the fast one is held to
};

// By number formats and shape alone, so that a matrix has one form, whatever rows a step brings.
constexpr LinearForm LinearFormFor(const LinearArgs& a) {
  const bool is_bfloat16 = a.x_dtype == DType::kBFloat16 && a.weight_dtype == DType::kBFloat16;
  return is_bfloat16 && a.inputs % 8 == 0 ? LinearForm::kFast : LinearForm::kPlain;
}

// Its rows are fp32 and are rounded.
constexpr LinearForm LinearFormFor(const HeadLinearArgs& a) {
  return a.weight_dtype == DType::kBFloat16 && a.inputs % 8 == 0 ? LinearForm::kFast
                                                                 : LinearForm::kPlain;
}

// Arguments are valid, as after kernels::Linear and HeadLinear; a form that takes them.
Status RunLinear(const Stream& stream, const LinearArgs& args, LinearForm form);
Status RunHeadLinear(const Stream& stream, const HeadLinearArgs& args, LinearForm form);

}  // namespace janus::kernels::cuda
