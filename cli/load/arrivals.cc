#include "cli/load/arrivals.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "cli/csv.h"

namespace janus::cli {
namespace {

// Token counts are integers, but some traces write them as 12.0.
std::optional<int> Tokens(std::optional<double> value) {
  if (!value || !(*value >= 0 && *value <= 1e8)) return std::nullopt;
  return std::max(1, static_cast<int>(*value));
}

}  // namespace

Result<std::vector<Arrival>> ParseTrace(std::string_view csv, int64_t limit) {
  CsvReader reader(csv);
  if (csv.empty()) return InvalidArgument("is empty; want CSV with a header row");
  const int time = reader.FindColumn({"arrival_s", "Timestamp"});
  const int input = reader.FindColumn({"input_tokens", "Request tokens"});
  const int output = reader.FindColumn({"output_tokens", "Response tokens"});
  if (time < 0 || input < 0 || output < 0) {
    return InvalidArgument("line 1: want the columns arrival_s, input_tokens, output_tokens; is '" +
                           std::string(reader.header().substr(0, 80)) + "'");
  }
  std::vector<Arrival> arrivals;
  while (reader.Next()) {
    const std::optional<double> seconds = reader.Number(time);
    const std::optional<int> in = Tokens(reader.Number(input));
    const std::optional<int> out = Tokens(reader.Number(output));
    if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || !in || !out) {
      return InvalidArgument("line " + std::to_string(reader.line()) + ": '" +
                             std::string(reader.row().substr(0, 80)) +
                             "' is no arrival; want seconds and two token counts");
    }
    if (!arrivals.empty() && *seconds < arrivals.back().seconds) {
      return InvalidArgument("line " + std::to_string(reader.line()) + ": the time falls from " +
                             std::to_string(arrivals.back().seconds) + " to " +
                             std::to_string(*seconds) + "; sort the trace by arrival");
    }
    arrivals.push_back({*seconds, *in, *out});
    if (limit > 0 && static_cast<int64_t>(arrivals.size()) == limit) break;
  }
  if (arrivals.empty()) return InvalidArgument("has no rows below its header");
  return arrivals;
}

Result<std::vector<Arrival>> ReadTrace(const std::string& path, int64_t limit) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadPossiblyGzip(path));
  Result<std::vector<Arrival>> arrivals = ParseTrace(text, limit);
  if (!arrivals.ok()) return std::move(arrivals).status().Annotate(path);
  return arrivals;
}

std::vector<Arrival> PoissonArrivals(double rate_per_second, int64_t count, int input_tokens,
                                     int output_tokens, uint64_t seed) {
  // The engine's bits are fixed by the standard; the distributions' are not, so the logarithm is
  // taken here.
  std::mt19937_64 random(seed);
  std::vector<Arrival> arrivals;
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    arrivals.push_back({now, input_tokens, output_tokens});
    const double uniform = static_cast<double>((random() >> 11) + 1) * 0x1p-53;  // (0, 1]
    now += -std::log(uniform) / rate_per_second;
  }
  return arrivals;
}

}  // namespace janus::cli
