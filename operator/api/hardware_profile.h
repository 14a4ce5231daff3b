#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/hardware.h"
#include "operator/api/object.h"
#include "operator/api/quantity.h"

namespace janus::control {

// HardwareProfile: a kind of accelerator by its data sheet; cluster-scoped. Plain data with the
// schema's defaults in place.
struct PeakSpec {  // dense operations per second
  Quantity bf16;
  std::optional<Quantity> fp8;
};

struct HardwareProfileSpec {
  std::string accelerator;    // the node label's value
  Quantity memory;            // bytes
  Quantity memory_bandwidth;  // bytes per second, as the next two
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

// As ParseMoEService. Pure.
Parsed<HardwareProfileObject> ParseHardwareProfile(const Node& root);

// Every rule of the schema; paths are the API server's. Pure.
FieldErrors ValidateSchema(const HardwareProfileObject& profile, Scope scope = Scope::kAll);

// What plans reckon with. `profile` has passed ValidateSchema. Pure.
HardwareProfile ToHardware(const HardwareProfileObject& profile);

}  // namespace janus::control
