#include "common/hardware.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

namespace janus {
namespace {

constexpr double kGB = 1e9;
constexpr double kTera = 1e12;

// name, memory, memory/s, bf16/s, fp8/s, inner/s, network/s, per node, price
const std::array<HardwareProfile, 8>& Presets() {
  static const std::array<HardwareProfile, 8> presets = {{
      {"L20", 48 * kGB, 864 * kGB, 119.5 * kTera, 239 * kTera, 32 * kGB, 25 * kGB, 8, 1.00},
      {"H800", 80 * kGB, 3430.4 * kGB, 989 * kTera, 1979 * kTera, 200 * kGB, 50 * kGB, 8, 5.28},
      {"A800", 80 * kGB, 2039 * kGB, 312 * kTera, 0, 200 * kGB, 25 * kGB, 8, 2.26},
      {"H20", 96 * kGB, 4096 * kGB, 148 * kTera, 296 * kTera, 450 * kGB, 25 * kGB, 8, 1.85},
      {"L40S", 48 * kGB, 864 * kGB, 362 * kTera, 733 * kTera, 32 * kGB, 12.5 * kGB, 8, 1.08},
      {"A100", 80 * kGB, 2039 * kGB, 312 * kTera, 0, 300 * kGB, 25 * kGB, 8, 2.26},
      {"H100", 80 * kGB, 3350 * kGB, 989 * kTera, 1979 * kTera, 450 * kGB, 50 * kGB, 8, 5.28},
      {"H200", 141 * kGB, 4800 * kGB, 989 * kTera, 1979 * kTera, 450 * kGB, 50 * kGB, 8, 7.39},
  }};
  return presets;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

double MemoryRatio(const HardwareProfile& from, const HardwareProfile& to) {
  return to.memory_bytes_per_second / from.memory_bytes_per_second;
}

double ComputeRatio(const HardwareProfile& from, const HardwareProfile& to) {
  return to.bf16_operations_per_second / from.bf16_operations_per_second;
}

}  // namespace

Status Validate(const HardwareProfile& profile) {
  if (profile.name.empty()) return InvalidArgument("HardwareProfile: has no name");
  const std::pair<const char*, double> figures[] = {
      {"memory", profile.memory_bytes},
      {"memoryBandwidth", profile.memory_bytes_per_second},
      {"peak.bf16", profile.bf16_operations_per_second},
      {"intraNodeBandwidth", profile.intra_node_bytes_per_second},
      {"interNodeBandwidth", profile.inter_node_bytes_per_second},
      {"instancesPerNode", static_cast<double>(profile.instances_per_node)},
      {"price", profile.price}};
  for (const auto& [field, value] : figures) {
    if (std::isfinite(value) && value > 0) continue;
    return InvalidArgument("HardwareProfile " + profile.name + ": " + field + " is " +
                           std::to_string(value) + "; want a positive number");
  }
  if (!std::isfinite(profile.fp8_operations_per_second) || profile.fp8_operations_per_second < 0) {
    return InvalidArgument("HardwareProfile " + profile.name + ": peak.FP8 is " +
                           std::to_string(profile.fp8_operations_per_second) +
                           "; want a positive number, or 0 where there is none");
  }
  return OkStatus();
}

std::span<const HardwareProfile> HardwarePresets() {
  return Presets();
}

Result<HardwareProfile> FindHardware(std::string_view name) {
  std::string known;
  for (const HardwareProfile& profile : Presets()) {
    if (Lower(profile.name) == Lower(name)) return profile;
    known += (known.empty() ? "" : ", ") + profile.name;
  }
  return NotFound("no hardware '" + std::string(name) + "'; known: " + known);
}

ExpertCost CarryOver(const ExpertCost& cost, const HardwareProfile& from, const HardwareProfile& to,
                     double bytes_per_weight) {
  ExpertCost carried = cost;
  carried.bytes_per_second *= MemoryRatio(from, to);
  carried.operations_per_second *=
      to.OperationsPerSecond(bytes_per_weight) / from.OperationsPerSecond(bytes_per_weight);
  return carried;
}

GroupedAttentionCost CarryOver(const GroupedAttentionCost& cost, const HardwareProfile& from,
                               const HardwareProfile& to) {
  GroupedAttentionCost carried = cost;
  carried.bytes_per_second *= MemoryRatio(from, to);
  const double compute = ComputeRatio(from, to);
  carried.kv_head_seconds /= compute;
  carried.query_head_seconds /= compute;
  carried.operation_seconds /= compute;
  return carried;
}

LatentAttentionCost CarryOver(const LatentAttentionCost& cost, const HardwareProfile& from,
                              const HardwareProfile& to) {
  LatentAttentionCost carried = cost;
  carried.head_seconds /= MemoryRatio(from, to);
  carried.key_seconds /= MemoryRatio(from, to);
  const double compute = ComputeRatio(from, to);
  carried.row_seconds /= compute;
  carried.row_head_seconds /= compute;
  carried.key_head_seconds /= compute;
  return carried;
}

ExchangeCost CarryOver(const ExchangeCost& cost, const HardwareProfile& from,
                       const HardwareProfile& to) {
  ExchangeCost carried = cost;
  const double inner = to.intra_node_bytes_per_second / from.intra_node_bytes_per_second;
  carried.inner_bytes_per_second *= inner;
  carried.row_seconds /= inner;
  carried.network_bytes_per_second *=
      to.inter_node_bytes_per_second / from.inter_node_bytes_per_second;
  return carried;
}

CollectiveCost CarryOver(const CollectiveCost& cost, const HardwareProfile& from,
                         const HardwareProfile& to) {
  CollectiveCost carried = cost;
  const double inner = to.intra_node_bytes_per_second / from.intra_node_bytes_per_second;
  carried.latency.bytes_per_second *= inner;
  carried.bandwidth.bytes_per_second *= inner;
  return carried;
}

}  // namespace janus
