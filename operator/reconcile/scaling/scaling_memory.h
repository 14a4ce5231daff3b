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
#include "operator/scaling/decision_record.h"
#include "operator/scaling/prediction_basis.h"
#include "operator/scaling/predictors.h"

namespace janus::control {

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
  // That `decide` has learned against; nothing: it has not learned. Jitter leaves it as it is.
  std::optional<PredictionBasis> basis;
  std::optional<MonotonicTime> decided;       // when the last decision was made
  std::optional<MonotonicTime> looked;        // when the answer that it was made from had come
  uint64_t timed_waits = 0;                   // of all members, at `looked`
  uint64_t timed_overruns = 0;                // the same
  std::optional<InstanceCounts> wanted;       // by decisions; nothing: those of the status
  std::optional<MonotonicTime> wanted_since;  // of counts that do not all serve yet
  int micro_batches = 0;                      // chosen; 0: none yet
  std::optional<DecisionRecord> last;
  std::optional<DecisionRecord> hold;   // why the decision at `decided` had no world; nothing: it
                                        // had one, or nothing was to be decided
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
