#pragma once

#include <cstdint>
#include <memory>

#include "common/model/description.h"
#include "kernels/device/context.h"
#include "tests/support/held_model.h"

namespace janus::bench {

// This process's GPU. Ends the process with status 3, saying why, where there is none.
std::unique_ptr<kernels::Context> OpenGpu();

// Random weights in the GPU's memory, the same for the same model and seed; they keep what they
// need.
dataplane::HeldModel RandomModelOnGpu(const ModelDescription& model, uint32_t seed = 1);

}  // namespace janus::bench
