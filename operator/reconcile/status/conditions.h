#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"

namespace janus::control {

// Conditions as in the conventions of the Kubernetes API ("Typical status properties"): what is
// known of one side of an object, always all of them, never removed.

enum class ConditionStatus { kTrue, kFalse, kUnknown };

struct Condition {
  std::string type;
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;   // one CamelCase word, for programs
  std::string message;  // a sentence for people
  int64_t observed_generation = 0;
  WallTime last_transition;

  friend bool operator==(const Condition&, const Condition&) = default;
};

// The types of a MoEService's, in the order in which they are shown. The first is what
// `kubectl wait` is used with.
inline constexpr std::string_view kConditionTypes[] = {
    "Ready",        "Available",         "Progressing",  "AttentionReady",
    "ExpertsReady", "TopologyReady",     "ScalingReady", "MetricsAvailable",
    "SLOMet",       "CapacityAvailable", "Stalled"};

// The longest message that the schema takes.
inline constexpr size_t kLongestMessage = 4096;

// Of an object's status.conditions; what cannot be read is left out.
std::vector<Condition> ReadConditions(const Node& object);

// For status.conditions.
Node WriteConditions(const std::vector<Condition>& conditions);

// The new conditions with their transition times, from those before: a time moves with the status
// alone, not with reason or message. Sorted as `now_said`.
std::vector<Condition> Transitioned(const std::vector<Condition>& before,
                                    std::vector<Condition> now_said, WallTime now);

}  // namespace janus::control
