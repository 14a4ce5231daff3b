#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "operator/api/tree.h"

namespace janus::control {

// Conditions as in the Kubernetes API conventions ("Typical status properties"). An object always
// has all of its types, and none is removed.

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

// Condition types of a MoEService in display order. `kubectl wait` is used with the first.
inline constexpr std::string_view kConditionTypes[] = {
    "Ready",        "Available",         "Progressing",  "AttentionReady",
    "ExpertsReady", "TopologyReady",     "ScalingReady", "MetricsAvailable",
    "SLOMet",       "CapacityAvailable", "Stalled"};

// The schema's limit for a message.
inline constexpr size_t kLongestMessage = 4096;

// From status.conditions; unreadable ones are skipped.
std::vector<Condition> ReadConditions(const Node& object);

// For status.conditions.
Node WriteConditions(const std::vector<Condition>& conditions);

// Adds transition times to the new conditions. A time changes only with the status, not with reason
// or message. Sorted like `now_said`.
std::vector<Condition> Transitioned(const std::vector<Condition>& before,
                                    std::vector<Condition> now_said, WallTime now);

}  // namespace janus::control
