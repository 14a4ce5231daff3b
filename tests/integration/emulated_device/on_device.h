#pragma once

#include <functional>
#include <memory>

#include "tests/support/emulated_device.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/random.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {

// Every instance on a separate emulated device.
inline KernelChoice OnDevice() {
  KernelChoice choice;
  choice.device = kernels::Device::kCuda;
  choice.make_context = [] { return std::make_unique<kernels::EmulatedDevice>(); };
  return choice;
}

// The same with streams that lag behind their hosts (EmulatedDevice::RunBehind), each with a
// different seed.
inline std::function<std::unique_ptr<kernels::Context>()> BehindHosts(uint64_t seed) {
  return [seed, made = uint64_t{0}]() mutable {
    auto device = std::make_unique<kernels::EmulatedDevice>();
    device->RunBehind(MixSeed(seed, ++made));
    return device;
  };
}

inline LoopbackCluster::Options OnDevices() {
  LoopbackCluster::Options options;
  options.device = kernels::Device::kCuda;
  options.make_context = OnDevice().make_context;
  return options;
}

}  // namespace janus::dataplane
