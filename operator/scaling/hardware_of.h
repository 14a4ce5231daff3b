#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/device_report.h"
#include "common/hardware.h"
#include "common/status.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/moeservice.h"

namespace janus::control {

// What is known of the device of one role's instances.
struct RoleDevice {
  Role role = Role::kAttention;
  std::string profile;                 // spec.roles.*.hardwareProfile; empty: none is named
  std::optional<DeviceReport> report;  // of one worker; nothing: no worker has reported yet
  int threads = 1;                     // that an instance computes on, of a CPU
  double memory_bytes = 0;             // that an instance on a CPU may take
};

// The device as predictions reckon with it. The first of these that there is:
//
//   1. the HardwareProfile object, or else the preset, that the spec names
//   2. the object whose `accelerator` is the device's name, or the node label made of it
//      ("NVIDIA-H100-80GB-HBM3" of "NVIDIA H100 80GB HBM3")
//   3. the preset that the device's name contains; forms with another data sheet (PCIe, NVL, slices
//      of a GPU) have none
//   4. what the worker measured of its CPUs (controllers/cpu_costs.h)
//
// `profiles` have passed ValidateSchema. NotFound: the spec names a profile that there is not.
// Unavailable: no worker has reported yet. FailedPrecondition: a device without a profile. Every
// message says what to do. Pure.
Result<HardwareProfile> HardwareOf(const RoleDevice& device,
                                   std::span<const HardwareProfileObject> profiles);

}  // namespace janus::control
