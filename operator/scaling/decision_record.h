#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.h"

namespace janus::control {

// Counts of instances, as status.decision has them.
struct InstanceCounts {
  int attention = 0;  // in all pools together
  int experts = 0;
  int pools = 1;
  friend bool operator==(const InstanceCounts&, const InstanceCounts&) = default;
};

// "4A6E", "8A12E in 2 pools".
std::string ToString(const InstanceCounts& counts);

// One decision on counts, for people and for status.decision. Plain data.
struct DecisionRecord {
  enum class Action {
    kHold,
    kScaleUp,
    kScaleDown,
    kSplit,  // the counts stay, and a step has another number of micro-batches
  };

  WallTime time;
  Action action = Action::kHold;
  InstanceCounts from;     // that were wanted before
  InstanceCounts to;       // that are wanted now
  std::string reason;      // one CamelCase word: controllers::Reason, NoMetrics, ModelUnknown
  std::string message;     // one sentence with the numbers
  std::string limited_by;  // the field of the spec that limits it; empty: none does
  std::optional<int64_t> predicted_tpot_microseconds;  // of `to`
  std::optional<int64_t> observed_tpot_microseconds;
  double cost = 0;  // of `to`, in the unit of the HardwareProfiles; 0: not known

  friend bool operator==(const DecisionRecord&, const DecisionRecord&) = default;
};

// "Hold", "ScaleUp", "ScaleDown", "Split".
std::string_view NameOf(DecisionRecord::Action action);

}  // namespace janus::control
