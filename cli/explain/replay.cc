#include "cli/explain/replay.h"

#include <cstdio>
#include <vector>

#include "cli/objects/columns.h"

namespace janus::cli {
namespace {

constexpr size_t kMostRows = 40;

std::string CountsOf(const control::DecidedLine& one) {
  return std::to_string(one.attention) + "A" + std::to_string(one.experts) + "E";
}

std::string Minutes(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", seconds / 60);
  return text;
}

// Instances over time, in instance-hours.
double Hours(const std::vector<control::ReplayedTick>& ticks, bool is_recorded) {
  double out = 0;
  for (size_t i = 0; i + 1 < ticks.size(); ++i) {
    const control::DecidedLine& one = is_recorded ? ticks[i].recorded : ticks[i].replayed;
    const double lasts = ticks[i + 1].recorded.time_seconds - ticks[i].recorded.time_seconds;
    out += (one.attention + one.experts) * lasts / 3600;
  }
  return out;
}

}  // namespace

Result<std::string> ReplayText(const std::string& lines, const control::ReplayChange& change) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<control::RecordedTick> ticks,
                         control::ParseLines(lines));
  if (ticks.empty()) return InvalidArgument("the records hold no decision yet");
  JANUS_ASSIGN_OR_RETURN(const control::Replayed replayed, control::Replay(ticks, change));
  std::vector<std::vector<std::string>> rows = {
      {"MINUTE", "RECORDED", "REASON", "REPLAYED", "REASON"}};
  size_t differing = 0, compared = 0;
  const double first = replayed.ticks.front().recorded.time_seconds;
  for (size_t i = 0; i < replayed.ticks.size(); ++i) {
    const control::ReplayedTick& tick = replayed.ticks[i];
    if (static_cast<int>(i) < replayed.settling) continue;
    ++compared;
    if (!tick.differs()) continue;
    ++differing;
    if (rows.size() > kMostRows) continue;
    rows.push_back({Minutes(tick.recorded.time_seconds - first),
                    tick.recorded.verb + " " + CountsOf(tick.recorded), tick.recorded.reason,
                    tick.replayed.verb + " " + CountsOf(tick.replayed), tick.replayed.reason});
  }
  std::string out = std::to_string(ticks.size()) + " decisions over " +
                    Minutes(replayed.ticks.back().recorded.time_seconds - first) + " minutes; " +
                    std::to_string(compared - differing) + " of " + std::to_string(compared) +
                    " are the same again\n";
  if (replayed.settling > 0) {
    out += std::to_string(replayed.settling) +
           " at the beginning are not compared: the records begin after the operator did; later "
           "ones may differ too, since it knew bursts and misses of hours before\n";
  }
  if (change.any()) {
    char text[128];
    std::snprintf(text, sizeof text, "wanted instance-hours: %.2f recorded, %.2f replayed\n",
                  Hours(replayed.ticks, true), Hours(replayed.ticks, false));
    out += text;
    out +=
        "The worlds stay as they were recorded: each row tells what would have been decided "
        "there, not what would have come of it.\n";
  }
  if (differing > 0) out += RenderColumns(rows);
  if (differing + 1 > rows.size()) {
    out += "and " + std::to_string(differing + 1 - rows.size()) + " more\n";
  }
  return out;
}

}  // namespace janus::cli
