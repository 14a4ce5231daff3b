#pragma once

#include <memory>

#include "tests/support/emulated_device.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {

// Every instance on an emulated device of its own.
inline KernelChoice OnDevice() {
  KernelChoice choice;
  choice.device = kernels::Device::kCuda;
  choice.make_context = [] { return std::make_unique<kernels::EmulatedDevice>(); };
  return choice;
}

inline LoopbackCluster::Options OnDevices() {
  LoopbackCluster::Options options;
  options.device = kernels::Device::kCuda;
  options.make_context = OnDevice().make_context;
  return options;
}

}  // namespace janus::dataplane
