#pragma once

#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// The compute device of a service's instances, and what their pods need for it.

// Resource names of NVIDIA's device plugin: "nvidia.com/gpu", shared "nvidia.com/gpu.shared", and
// slices "nvidia.com/mig-1g.10gb". Pure.
bool IsGpu(std::string_view resource);

// Resolves spec.device to kCpu, kCuda or kTimed. Auto means CUDA if the pods of both roles have
// NVIDIA GPU limits, in resources.limits or in the podTemplate's container "worker". Pure.
Device DeviceOf(const MoEServiceSpec& spec);
inline Device DeviceOf(const MoEService& service) {
  return DeviceOf(service.spec);
}
// What its workers really compute on, kCpu or kCuda: a timed device is a CPU. Pure.
Device ComputesOn(const MoEService& service);

// Device settings that no cluster can carry out, with the paths of the limits. A role has no GPU,
// although the other has one or spec.device is CUDA. A GPU is requested without a limit. A pod has
// more than one GPU, although a worker uses one. Under CUDA, other device names (an extended
// resource, or a claim of dynamic resource allocation) are accepted unchecked. With CPU or Timed
// nothing is checked. Pure.
FieldErrors ValidateDevice(const MoEService& service);

}  // namespace janus::control
