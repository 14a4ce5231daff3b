#pragma once

#include <memory>

#include "tests/support/emulated_device.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {

// Every instance on an emulated device of its own; what they exchange goes through the host's
// memory or stays in the devices'.
inline KernelChoice OnDevice(bool exchange_on_device = false) {
  KernelChoice choice;
  choice.exchange_on_device = exchange_on_device;
  choice.device = kernels::Device::kCuda;
  choice.make_context = [] { return std::make_unique<kernels::EmulatedDevice>(); };
  return choice;
}

}  // namespace janus::dataplane
