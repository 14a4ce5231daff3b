#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/cost.h"
#include "common/status.h"

namespace janus {

// A kind of accelerator under its user-visible name (the object HardwareProfile). The figures are
// from the data sheet. How much of them kernels reach is in the coefficients of common/cost.h.
struct HardwareProfile {
  std::string name;
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double bf16_operations_per_second = 0;   // dense
  double fp8_operations_per_second = 0;    // dense; 0: computes fp8 weights in bf16
  double intra_node_bytes_per_second = 0;  // between instances of a node, per direction
  double inter_node_bytes_per_second = 0;  // network card of one instance, per direction
  int instances_per_node = 8;
  double price = 1;  // per instance and time, any unit
  // Cores of a machine, as measured: there is no data sheet, and no coefficients are carried over
  // to them (controllers/cpu_costs.h).
  bool is_cpu = false;

  // Weights of one byte are fp8; smaller ones are multiplied in bf16.
  double OperationsPerSecond(double bytes_per_weight) const {
    const bool is_fp8 = bytes_per_weight == 1;
    return is_fp8 && fp8_operations_per_second > 0 ? fp8_operations_per_second
                                                   : bf16_operations_per_second;
  }

  friend bool operator==(const HardwareProfile&, const HardwareProfile&) = default;
};

// InvalidArgument names the field: the name is empty, or a figure other than fp8 is not positive
// and finite.
Status Validate(const HardwareProfile& profile);

// The devices of the papers (MegaScale-Infer, Table 3 and 7.1; prices relative to L20), and H100
// and H200 of the calibration data. The table has no price for these two: H100 takes H800's, and
// H200 that price in proportion to its memory bandwidth. A100 takes A800's.
std::span<const HardwareProfile> HardwarePresets();

// By name, in any case. NotFound lists the names.
Result<HardwareProfile> FindHardware(std::string_view name);

// Converts coefficients measured on one device to another by their data sheets: reads scale with
// memory bandwidth, computing with operations, and fixed parts stay. `bytes_per_weight` chooses the
// arithmetic.
ExpertCost CarryOver(const ExpertCost& cost, const HardwareProfile& from, const HardwareProfile& to,
                     double bytes_per_weight);
GroupedAttentionCost CarryOver(const GroupedAttentionCost& cost, const HardwareProfile& from,
                               const HardwareProfile& to);
LatentAttentionCost CarryOver(const LatentAttentionCost& cost, const HardwareProfile& from,
                              const HardwareProfile& to);
ExchangeCost CarryOver(const ExchangeCost& cost, const HardwareProfile& from,
                       const HardwareProfile& to);
CollectiveCost CarryOver(const CollectiveCost& cost, const HardwareProfile& from,
                         const HardwareProfile& to);

}  // namespace janus
