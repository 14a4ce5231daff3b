#pragma once

#include <cstdint>
#include <memory>

#include "common/model/description.h"
#include "kernels/device/context.h"
#include "tests/support/held_model.h"

namespace janus::bench {

// Opens this process's GPU. Without one, ends the process with status 3 and says why.
std::unique_ptr<kernels::Context> OpenGpu();

// A model with random weights in the GPU's memory, the same for the same model and seed. It owns
// what the weights need.
dataplane::HeldModel RandomModelOnGpu(const ModelDescription& model, uint32_t seed = 1);

}  // namespace janus::bench
