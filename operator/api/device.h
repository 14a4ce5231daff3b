#pragma once

#include <string_view>

#include "operator/api/moeservice.h"
#include "operator/api/tree.h"

namespace janus::control {

// What the instances of a service compute on, and what their pods are to be given for it.

// What NVIDIA's device plugin gives: "nvidia.com/gpu", shared ones "nvidia.com/gpu.shared", and
// slices of one "nvidia.com/mig-1g.10gb". Pure.
bool IsGpu(std::string_view resource);

// What spec.device comes to, kCpu or kCuda: Auto is CUDA where the pods of both roles are limited
// to GPUs of NVIDIA, as resources.limits says, or the podTemplate's container "worker" does. Pure.
Device DeviceOf(const MoEService& service);

// What of it no cluster can carry out, at the paths of the limits: a role without a GPU where the
// other has one or spec.device is CUDA, one that is requested and in no limit, and pods of more
// than one, as a worker computes on one. A device of another name (an extended resource, or a claim
// of dynamic resource allocation) is taken at its word under CUDA: what it stands for only its
// makers know. Nothing is asked of CPU. Pure.
FieldErrors ValidateDevice(const MoEService& service);

}  // namespace janus::control
