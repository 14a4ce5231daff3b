#pragma once

#include "common/cost.h"
#include "common/hardware.h"
#include "common/status.h"

namespace janus::controllers {

// The coefficients of one device for one model's number formats.
struct DeviceCosts {
  HardwareProfile hardware;
  ExpertCost experts;
  GroupedAttentionCost grouped;
  LatentAttentionCost latent;
  ExchangeCost dispatch;  // rows to the experts, within and across nodes
  ExchangeCost combine;   // contributions back
  CollectiveCost all_gather;
  CollectiveCost all_reduce;
};

// Costs of a device for weights of `bytes_per_weight`: fitted on data/calibration for H100 and H200
// (DeepSeek-V3's experts in fp8; fa3 decode attention over a bf16 cache with heads of 128; fa3
// latent attention; DeepEP low-latency over 1-8 nodes; NCCL), carried over by data sheet from H100
// for any other GPU; of CPUs by cpu_costs.h. `janusctl plan --check-calibration` prints how far
// each is off. InvalidArgument: the profile is not valid.
Result<DeviceCosts> CostsOf(const HardwareProfile& hardware, double bytes_per_weight);

}  // namespace janus::controllers
