#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "common/row_format.h"

namespace janus::control {

// The API's enumerations. The table below each enum has the names that objects use: CamelCase,
// never On/Off/Yes/No, which some YAML readers turn into booleans.

enum class SourceType { kHuggingFace, kPersistentVolumeClaim, kImage, kHostPath };
enum class Dtype { kAuto, kBFloat16, kFloat16, kFloat32 };
enum class CacheType { kNone, kPersistentVolumeClaim, kNode };
enum class Percentile { kP50, kP90, kP95, kP99 };
// 0.95 for kP95.
constexpr double ShareOf(Percentile percentile) {
  constexpr double kShares[] = {0.5, 0.9, 0.95, 0.99};
  return kShares[static_cast<int>(percentile)];
}
enum class Device { kAuto, kCpu, kCuda, kTimed };
enum class ScalingMode { kSlo, kExternal };
enum class SelectPolicy { kMax, kMin, kDisabled };
enum class BehaviorPolicyType { kPods, kPercent };
enum class TolerationOperator { kExists, kEqual };
enum class TaintEffect { kNoSchedule, kPreferNoSchedule, kNoExecute };
enum class KvDtype { kAuto, kFp8 };
enum class PrefixCache { kAuto, kExact, kReuse, kDisabled };
enum class PlacementPolicy { kAuto, kActivationAware, kRoundRobin };
enum class Scheduling { kAebs, kAebsGreedy, kRandom, kStatic };
enum class ExchangeMode { kAuto, kDirect, kTwoPhaseSingle, kTwoPhaseParallel };
enum class Transport { kAuto, kSharedMemory, kTcp, kRdma };
enum class GateSide { kAuto, kExperts, kAttention };
enum class SumRule { kAuto, kContributions, kFixedPoint };
enum class Predictor { kNone, kEwma, kSeasonal };
enum class WithoutCapacity { kBlock, kShrink };
enum class RolloutType { kAuto, kRolling, kSideBySide, kRecreate };
enum class ServiceType { kClusterIp, kNodePort, kLoadBalancer };
enum class Tls { kAuto, kDisabled };

// EnumNames<E>::kNames: all values of E with their names, in the order of the reference page.
template <class E>
struct EnumNames;

#define JANUS_ENUM_NAMES(E, count, ...)                                                      \
  template <>                                                                                \
  struct EnumNames<E> {                                                                      \
    static constexpr std::array<std::pair<E, std::string_view>, count> kNames = __VA_ARGS__; \
  }

JANUS_ENUM_NAMES(SourceType, 4,
                 {{{SourceType::kHuggingFace, "HuggingFace"},
                   {SourceType::kPersistentVolumeClaim, "PersistentVolumeClaim"},
                   {SourceType::kImage, "Image"},
                   {SourceType::kHostPath, "HostPath"}}});
JANUS_ENUM_NAMES(Dtype, 4,
                 {{{Dtype::kAuto, "Auto"},
                   {Dtype::kBFloat16, "BFloat16"},
                   {Dtype::kFloat16, "Float16"},
                   {Dtype::kFloat32, "Float32"}}});
JANUS_ENUM_NAMES(CacheType, 3,
                 {{{CacheType::kNone, "None"},
                   {CacheType::kPersistentVolumeClaim, "PersistentVolumeClaim"},
                   {CacheType::kNode, "Node"}}});
JANUS_ENUM_NAMES(Percentile, 4,
                 {{{Percentile::kP50, "P50"},
                   {Percentile::kP90, "P90"},
                   {Percentile::kP95, "P95"},
                   {Percentile::kP99, "P99"}}});
JANUS_ENUM_NAMES(Device, 4,
                 {{{Device::kAuto, "Auto"},
                   {Device::kCpu, "CPU"},
                   {Device::kCuda, "CUDA"},
                   {Device::kTimed, "Timed"}}});
JANUS_ENUM_NAMES(ScalingMode, 2,
                 {{{ScalingMode::kSlo, "SLO"}, {ScalingMode::kExternal, "External"}}});
JANUS_ENUM_NAMES(SelectPolicy, 3,
                 {{{SelectPolicy::kMax, "Max"},
                   {SelectPolicy::kMin, "Min"},
                   {SelectPolicy::kDisabled, "Disabled"}}});
JANUS_ENUM_NAMES(BehaviorPolicyType, 2,
                 {{{BehaviorPolicyType::kPods, "Pods"},
                   {BehaviorPolicyType::kPercent, "Percent"}}});
JANUS_ENUM_NAMES(TolerationOperator, 2,
                 {{{TolerationOperator::kExists, "Exists"},
                   {TolerationOperator::kEqual, "Equal"}}});
JANUS_ENUM_NAMES(TaintEffect, 3,
                 {{{TaintEffect::kNoSchedule, "NoSchedule"},
                   {TaintEffect::kPreferNoSchedule, "PreferNoSchedule"},
                   {TaintEffect::kNoExecute, "NoExecute"}}});
JANUS_ENUM_NAMES(KvDtype, 2, {{{KvDtype::kAuto, "Auto"}, {KvDtype::kFp8, "FP8"}}});
JANUS_ENUM_NAMES(PrefixCache, 4,
                 {{{PrefixCache::kAuto, "Auto"},
                   {PrefixCache::kExact, "Exact"},
                   {PrefixCache::kReuse, "Reuse"},
                   {PrefixCache::kDisabled, "Disabled"}}});
JANUS_ENUM_NAMES(PlacementPolicy, 3,
                 {{{PlacementPolicy::kAuto, "Auto"},
                   {PlacementPolicy::kActivationAware, "ActivationAware"},
                   {PlacementPolicy::kRoundRobin, "RoundRobin"}}});
JANUS_ENUM_NAMES(Scheduling, 4,
                 {{{Scheduling::kAebs, "AEBS"},
                   {Scheduling::kAebsGreedy, "AEBSGreedy"},
                   {Scheduling::kRandom, "Random"},
                   {Scheduling::kStatic, "Static"}}});
JANUS_ENUM_NAMES(ExchangeMode, 4,
                 {{{ExchangeMode::kAuto, "Auto"},
                   {ExchangeMode::kDirect, "Direct"},
                   {ExchangeMode::kTwoPhaseSingle, "TwoPhaseSingle"},
                   {ExchangeMode::kTwoPhaseParallel, "TwoPhaseParallel"}}});
JANUS_ENUM_NAMES(Transport, 4,
                 {{{Transport::kAuto, "Auto"},
                   {Transport::kSharedMemory, "SharedMemory"},
                   {Transport::kTcp, "TCP"},
                   {Transport::kRdma, "RDMA"}}});
JANUS_ENUM_NAMES(Compression, 2, {{{Compression::kNone, "None"}, {Compression::kFp8, "FP8"}}});
JANUS_ENUM_NAMES(GateSide, 3,
                 {{{GateSide::kAuto, "Auto"},
                   {GateSide::kExperts, "Experts"},
                   {GateSide::kAttention, "Attention"}}});
JANUS_ENUM_NAMES(SumRule, 3,
                 {{{SumRule::kAuto, "Auto"},
                   {SumRule::kContributions, "Contributions"},
                   {SumRule::kFixedPoint, "FixedPoint"}}});
JANUS_ENUM_NAMES(
    Predictor, 3,
    {{{Predictor::kNone, "None"}, {Predictor::kEwma, "EWMA"}, {Predictor::kSeasonal, "Seasonal"}}});
JANUS_ENUM_NAMES(WithoutCapacity, 2,
                 {{{WithoutCapacity::kBlock, "Block"}, {WithoutCapacity::kShrink, "Shrink"}}});
JANUS_ENUM_NAMES(RolloutType, 4,
                 {{{RolloutType::kAuto, "Auto"},
                   {RolloutType::kRolling, "Rolling"},
                   {RolloutType::kSideBySide, "SideBySide"},
                   {RolloutType::kRecreate, "Recreate"}}});
JANUS_ENUM_NAMES(ServiceType, 3,
                 {{{ServiceType::kClusterIp, "ClusterIP"},
                   {ServiceType::kNodePort, "NodePort"},
                   {ServiceType::kLoadBalancer, "LoadBalancer"}}});
JANUS_ENUM_NAMES(Tls, 2, {{{Tls::kAuto, "Auto"}, {Tls::kDisabled, "Disabled"}}});

#undef JANUS_ENUM_NAMES

template <class E>
constexpr std::string_view ToString(E value) {
  for (const auto& [candidate, name] : EnumNames<E>::kNames) {
    if (candidate == value) return name;
  }
  return "unknown";
}

template <class E>
constexpr std::optional<E> FromString(std::string_view text) {
  for (const auto& [value, name] : EnumNames<E>::kNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace janus::control
