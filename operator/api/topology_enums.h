#pragma once

#include "common/topology.h"
#include "operator/api/enums.h"

namespace janus::control {

// Names of the enums of common/topology.h in objects. They have no Auto, since a committed topology
// has none.

template <>
struct EnumNames<janus::Role> {
  static constexpr std::array<std::pair<janus::Role, std::string_view>, 2> kNames = {
      {{janus::Role::kAttention, "attention"}, {janus::Role::kExperts, "experts"}}};
};

template <>
struct EnumNames<janus::ExchangeMode> {
  static constexpr std::array<std::pair<janus::ExchangeMode, std::string_view>, 3> kNames = {
      {{janus::ExchangeMode::kDirect, "Direct"},
       {janus::ExchangeMode::kTwoPhaseSingle, "TwoPhaseSingle"},
       {janus::ExchangeMode::kTwoPhaseParallel, "TwoPhaseParallel"}}};
};

template <>
struct EnumNames<janus::GateSide> {
  static constexpr std::array<std::pair<janus::GateSide, std::string_view>, 2> kNames = {
      {{janus::GateSide::kExperts, "Experts"}, {janus::GateSide::kAttention, "Attention"}}};
};

template <>
struct EnumNames<janus::SumRule> {
  static constexpr std::array<std::pair<janus::SumRule, std::string_view>, 2> kNames = {
      {{janus::SumRule::kContributions, "Contributions"},
       {janus::SumRule::kFixedPoint, "FixedPoint"}}};
};

}  // namespace janus::control
