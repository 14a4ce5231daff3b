#pragma once

#include "common/fixed_point.h"
#include "common/row_format.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"

namespace janus::control {

// The values that this build chooses for fields set to Auto, as shown in status.effective. They are
// not written back to the spec.
struct Effective {
  std::string model_name;
  Device device = Device::kCpu;
  janus::ExchangeMode mode = janus::ExchangeMode::kDirect;
  ExchangeTransport transport = ExchangeTransport::kAuto;
  janus::GateSide gate = janus::GateSide::kExperts;
  janus::SumRule sum = janus::SumRule::kContributions;
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  PrefixCache prefix_cache = PrefixCache::kExact;
  PlacementPolicy placement = PlacementPolicy::kActivationAware;
  Tls tls = Tls::kDisabled;
  int micro_batches = 1;
  int kv_memory_percent = 90;
  bool fp8_kv_cache = false;
  Compression compression = Compression::kNone;
  FixedPointSums sums;  // with `sum` FixedPoint
};

// `service` has passed ValidateSchema and ValidateSupported. Pure.
Effective ResolveDefaults(const MoEService& service);

}  // namespace janus::control
