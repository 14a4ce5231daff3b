#pragma once

#include <string>

#include "common/fixed_point.h"
#include "common/model/description.h"
#include "common/row_format.h"
#include "kernels/cpu/isa.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// What a worker computes on, as far as it affects bits: "cpu AVX512", "cuda sm_90a", or "cuda
// sm_90" in a build without kernels for sm_90a.
std::string DeviceClass(const kernels::Context& context, kernels::Isa isa);

// The class of everything that affects bits; equal on all members of a role (HELLO). `fp8_cache`:
// as in AttentionOptions. `compression`, `sums`: of the exchange.
std::string NumericsClass(const ModelDescription& model, bool fp8_cache, Compression compression,
                          const FixedPointSums& sums, const kernels::Context& context,
                          kernels::Isa isa);

}  // namespace janus::dataplane
