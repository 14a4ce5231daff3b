#pragma once

#include <memory>

#include "tests/support/emulated_device.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {

// Every instance on an emulated device of its own.
inline KernelChoice OnDevice() {
  KernelChoice choice;
  choice.device = kernels::Device::kCuda;
  choice.make_context = [] { return std::make_unique<kernels::EmulatedDevice>(); };
  return choice;
}

}  // namespace janus::dataplane
