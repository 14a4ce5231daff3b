#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/hardware.h"
#include "operator/api/object.h"
#include "operator/api/quantity.h"

namespace janus::control {

// HardwareProfile: an accelerator type with its data sheet; cluster-scoped. Plain data with the
// schema's defaults.
struct PeakSpec {  // dense operations per second
  Quantity bf16;
  std::optional<Quantity> fp8;
};

struct HardwareProfileSpec {
  std::string accelerator;    // the node label's value
  Quantity memory;            // bytes
  Quantity memory_bandwidth;  // bytes per second, also below
  PeakSpec peak;
  Quantity intra_node_bandwidth;
  Quantity inter_node_bandwidth;
  int32_t instances_per_node = 8;
  std::string rdma_resource;
  Quantity price{1, 1000, "1"};
};

struct HardwareProfileObject {
  ObjectMeta metadata;
  HardwareProfileSpec spec;
};

// Like ParseMoEService. Pure.
Parsed<HardwareProfileObject> ParseHardwareProfile(const Node& root);

// Checks every rule of the schema; paths are the API server's. Pure.
FieldErrors ValidateSchema(const HardwareProfileObject& profile, Scope scope = Scope::kAll);

// The values that planning uses. `profile` has passed ValidateSchema. Pure.
HardwareProfile ToHardware(const HardwareProfileObject& profile);

}  // namespace janus::control
