#pragma once

#include <string>

#include "common/model/description.h"
#include "kernels/cpu/isa.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// What a worker computes on, as far as bits depend on it: "cpu AVX512", "cuda sm_90a", or "cuda
// sm_90" of a build without kernels for sm_90a.
std::string DeviceClass(const kernels::Context& context, kernels::Isa isa);

// The class of computation that bits depend on; alike on all members of a role (HELLO).
// `fp8_cache`: as AttentionOptions has it.
std::string NumericsClass(const ModelDescription& model, bool fp8_cache,
                          const kernels::Context& context, kernels::Isa isa);

}  // namespace janus::dataplane
