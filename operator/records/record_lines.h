#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "operator/records/tick_record.h"

namespace janus::control {

// Records as lines of text, for a file that can be replayed:
//
//   setting tpot_seconds=0.1 ...       policy, model and devices; whenever they change
//   begin                              the next decision had no memory
//   world time_seconds=12 ...          controllers/scaling/log.h
//   decided kind=1 reason=... text=... what was decided there
//
// Numbers have all their digits.
std::string ToLines(const std::vector<std::shared_ptr<const TickRecord>>& ticks);

// A decision as a line has it.
struct DecidedLine {
  double time_seconds = 0;  // since 1970
  std::string verb;
  std::string reason;
  std::string text;
  int attention = 0;  // wanted after it, over all pools
  int experts = 0;
  int micro_batches = 0;
  friend bool operator==(const DecidedLine&, const DecidedLine&) = default;
};
// `time`: of the record.
DecidedLine DecidedOf(const controllers::Decision& decision, WallTime time);

struct RecordedTick {
  bool begins = false;
  std::shared_ptr<const RecordedSetting> setting;
  controllers::World world;
  DecidedLine decided;
};
// InvalidArgument: line and field that cannot be read, or a line at a wrong place.
janus::Result<std::vector<RecordedTick>> ParseLines(std::string_view text);

}  // namespace janus::control
