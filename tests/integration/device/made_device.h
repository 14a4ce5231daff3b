#pragma once

#include <memory>

#include "kernels/device/context.h"

namespace janus::kernels {

// A device with a stream of its own. Which the cases of this folder run on is what a program links:
// emulated ones (made_emulated.cc), whose streams and loads lag behind as they like, or a GPU
// (../gpu/device_gpu_test.cc). Aborts where there is none.
std::unique_ptr<Context> MakeDevice();

}  // namespace janus::kernels
