#include "cli/trace.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/csv.h"

namespace janus::cli {
namespace {

// Decisions are made every few seconds, also without arrivals: a longer trace would take too long.
constexpr double kLongestSeconds = 100.0 * 86400;

// Token counts are integers, but some traces write them as 12.0.
std::optional<int> Tokens(std::optional<double> value) {
  if (!value || !(*value >= 0 && *value <= 1e8)) return std::nullopt;
  return std::max(1, static_cast<int>(*value));
}

// Times continue from the end of `arrivals`.
Status Append(std::string_view csv, int64_t limit, std::vector<Arrival>& arrivals) {
  CsvReader reader(csv);
  if (csv.empty()) return InvalidArgument("is empty; want CSV with a header row");
  const int gap = reader.FindColumn({"gap_s"});
  const int time = gap >= 0 ? gap : reader.FindColumn({"arrival_s", "Timestamp"});
  const int input = reader.FindColumn({"input_tokens", "Request tokens"});
  const int output = reader.FindColumn({"output_tokens", "Response tokens"});
  if (time < 0 || input < 0 || output < 0) {
    return InvalidArgument(
        "line 1: want the columns arrival_s (or gap_s), input_tokens, output_tokens; is '" +
        std::string(reader.header().substr(0, 80)) + "'");
  }
  const size_t before = arrivals.size();
  while ((limit == 0 || static_cast<int64_t>(arrivals.size()) < limit) && reader.Next()) {
    const std::optional<double> seconds = reader.Number(time);
    const std::optional<int> in = Tokens(reader.Number(input));
    const std::optional<int> out = Tokens(reader.Number(output));
    if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || !in || !out) {
      return InvalidArgument("line " + std::to_string(reader.line()) + ": '" +
                             std::string(reader.row().substr(0, 80)) +
                             "' is not an arrival; want seconds and two token counts. All are at "
                             "least 0; tokens are at most 100 million");
    }
    const double last = arrivals.empty() ? 0 : arrivals.back().seconds;
    if (gap < 0 && *seconds < last) {
      return InvalidArgument("line " + std::to_string(reader.line()) +
                             ": the time decreases from " + std::to_string(last) + " to " +
                             std::to_string(*seconds) + "; sort the trace by arrival time");
    }
    const double at = gap < 0 ? *seconds : last + *seconds;
    if (at > kLongestSeconds) {
      return InvalidArgument("line " + std::to_string(reader.line()) + ": '" +
                             std::string(reader.row().substr(0, 80)) +
                             "' arrives more than 100 days after the start; arrival_s counts "
                             "seconds from the start of the trace, not from 1970");
    }
    arrivals.push_back({at, *in, *out});
  }
  if (arrivals.size() == before && limit == 0) {
    return InvalidArgument("has no rows below its header");
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<Arrival>> ParseTrace(std::string_view csv, int64_t limit) {
  std::vector<Arrival> arrivals;
  JANUS_RETURN_IF_ERROR(Append(csv, limit, arrivals));
  if (arrivals.empty()) return InvalidArgument("has no rows below its header");
  return arrivals;
}

Result<std::vector<Arrival>> ReadTrace(const std::string& path, int64_t limit) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<std::string> files, CsvFilesAt(path));
  std::vector<Arrival> arrivals;
  for (const std::string& file : files) {
    JANUS_ASSIGN_OR_RETURN(const std::string text, ReadPossiblyGzip(file));
    const Status read = Append(text, limit, arrivals);
    if (!read.ok()) return read.Annotate(file);
    if (limit > 0 && static_cast<int64_t>(arrivals.size()) >= limit) break;
  }
  if (arrivals.empty()) return InvalidArgument(path + ": has no rows below its header");
  return arrivals;
}

}  // namespace janus::cli
