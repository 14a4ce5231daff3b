#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controllers/observe/world_from.h"
#include "controllers/scaling/decide.h"
#include "operator/scaling/predictors.h"

namespace janus::control {

// Counts of instances, as status.decision has them.
struct InstanceCounts {
  int attention = 0;
  int experts = 0;
  friend bool operator==(const InstanceCounts&, const InstanceCounts&) = default;
};

// "4A6E".
std::string ToString(const InstanceCounts& counts);

// One decision on counts, for people and for status.decision. Plain data.
struct DecisionRecord {
  enum class Action { kHold, kScaleUp, kScaleDown };

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

// Requests that ended between two decisions.
struct EndedThen {
  MonotonicTime time;
  double requests = 0;
  double attained = 0;
};

// What scaling leaves from one decision to the next. A new leader begins without it: the counts
// that are wanted are then read from the status, and an empty controllers::Memory only scales down
// later.
struct ScalingMemory {
  controllers::Memory decide;
  controllers::LookHistory looks;
  Predictors predictors;
  std::optional<MonotonicTime> decided;       // when the last decision was made
  std::optional<MonotonicTime> looked;        // when the answer that it was made from had come
  std::optional<InstanceCounts> wanted;       // by decisions; nothing: those of the status
  std::optional<MonotonicTime> wanted_since;  // of counts that do not all serve yet
  int micro_batches = 0;                      // chosen; 0: none yet
  std::optional<DecisionRecord> last;
  std::vector<DecisionRecord> history;  // changes before `last`, newest first; kMostHistory
  std::vector<EndedThen> ended;         // newest last, as far back as kAttainmentWindow

  // Pods that were asked for and do not serve yet, by uid: since when. And those that serve.
  std::map<std::string, MonotonicTime> starting;
  std::map<std::string, MonotonicTime> serving;
};

inline constexpr size_t kMostHistory = 5;
// SLOMet is judged by the requests that ended within this time.
inline constexpr std::chrono::minutes kAttainmentWindow{5};

}  // namespace janus::control
