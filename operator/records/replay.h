#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "operator/records/record_lines.h"

namespace janus::control {

// What a replay asks otherwise than the recorded policy did; nothing: as it was.
struct ReplayChange {
  std::optional<double> tpot_seconds = {};
  std::optional<double> ttft_seconds = {};
  std::optional<int> max_attention = {};
  std::optional<int> max_experts = {};
  std::optional<int> max_gpus = {};
  bool any() const {
    return tpot_seconds || ttft_seconds || max_attention || max_experts || max_gpus;
  }
};

struct ReplayedTick {
  DecidedLine recorded;
  DecidedLine replayed;
  bool differs() const { return !(recorded == replayed); }
};

struct Replayed {
  std::vector<ReplayedTick> ticks;
  // So many of the first ticks are not to be compared: the records begin in the middle of a term,
  // and these decisions knew earlier ones.
  int settling = 0;
};

// Until then a decision depends on earlier worlds by its windows and its learned factors, whose
// samples then weigh a 64th. What reaches back further still counts: the last starts, the
// histograms of bursts (half in four hours), the error budget (half in a day) and the season of a
// forecast. So even later decisions may differ, where the records do not hold the begin of their
// term.
inline constexpr Seconds kSettles{3600};

// Decides again on recorded worlds. Without a change, each decision since the begin of a term is
// the same as the recorded one. With a change, the worlds stay those of the recorded counts: the
// replay tells what would have been decided in each of them, not what would have become of it
// (`janusctl simulate --trace` does that). Errors: of BuildPredictor; InvalidArgument: a changed
// policy is invalid. Pure.
janus::Result<Replayed> Replay(const std::vector<RecordedTick>& ticks, const ReplayChange& change);

}  // namespace janus::control
