#pragma once

#include <memory>

#include "kernels/device/context.h"

namespace janus::kernels {

// A device with a separate stream. What a program links decides which device the cases of this
// folder run on: emulated ones (made_emulated.cc), with streams and loads that lag at random, or a
// GPU (../gpu/device_gpu_test.cc). Aborts if there is no device.
std::unique_ptr<Context> MakeDevice();

}  // namespace janus::kernels
