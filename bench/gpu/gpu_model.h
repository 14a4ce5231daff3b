#pragma once

#include <memory>

#include "common/model/description.h"
#include "kernels/device/context.h"
#include "tests/support/held_model.h"

namespace janus::bench {

// This process's GPU. Ends the process with status 3, saying why, where there is none.
std::unique_ptr<kernels::Context> OpenGpu();

// Random weights in the GPU's memory, the same for the same model; they keep what they need.
dataplane::HeldModel RandomModelOnGpu(const ModelDescription& model);

}  // namespace janus::bench
