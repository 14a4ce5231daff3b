#include "cli/simulate/demand.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/simulate/rates_file.h"
#include "cli/trace.h"

namespace janus::cli {

namespace {

using controllers::SimulatedRequest;

constexpr double kWindow_s = 600;

Status TooMany(const DemandOptions& options, double groups) {
  char text[224];
  std::snprintf(text, sizeof(text),
                "simulate: --scale %.6g makes about %.3g groups of at most %d requests, and the "
                "limit is %.3g groups; lower --scale or raise --max-weight",
                options.scale, groups, options.max_weight, kMostGroups);
  return InvalidArgument(text);
}

// How many groups `rows` rows of a trace become.
double GroupsOf(const DemandOptions& options, size_t rows) {
  return static_cast<double>(rows) *
         (options.scale / options.max_weight + std::min(options.scale, 1.0));
}

// How many groups are drawn from windows at their rates.
double GroupsOf(const DemandOptions& options, const std::vector<controllers::RateWindow>& windows) {
  double requests = 0;
  double length_s = kWindow_s;
  for (size_t w = 0; w < windows.size(); ++w) {
    if (w + 1 < windows.size()) length_s = windows[w + 1].start_s - windows[w].start_s;
    requests += windows[w].rate * length_s;
  }
  return requests * options.scale / options.max_weight;
}

// Keeps only the hours that were asked for. Returns when the demand begins, in seconds of the file.
double KeepHours(const DemandOptions& options, std::vector<SimulatedRequest>& requests) {
  const double from = options.from_hours * 3600;
  const double until = options.hours > 0 ? from + options.hours * 3600 : HUGE_VAL;
  std::erase_if(requests, [&](const SimulatedRequest& request) {
    return request.arrival < from || request.arrival >= until;
  });
  if (requests.empty()) return from;
  const double begin = std::max(from, std::floor(requests.front().arrival / kWindow_s) * kWindow_s);
  for (SimulatedRequest& request : requests) request.arrival -= begin;
  return begin;
}

}  // namespace

Result<DemandRead> ReadDemand(const DemandOptions& options) {
  if (options.trace.empty() == options.rates.empty()) {
    return InvalidArgument("simulate: give the requests to replay, with --trace or --rates");
  }
  if (!std::isfinite(options.scale) || options.scale <= 0 || options.max_weight < 1) {
    return InvalidArgument("simulate: --scale is " + std::to_string(options.scale) +
                           " and --max-weight is " + std::to_string(options.max_weight) +
                           "; want a --scale above 0 and a --max-weight of at least 1");
  }
  controllers::Replay replay;
  replay.factor = options.scale;
  replay.max_weight = options.max_weight;
  replay.seed = options.seed;
  DemandRead demand;
  std::vector<SimulatedRequest>& requests = demand.requests;
  if (!options.trace.empty()) {
    JANUS_ASSIGN_OR_RETURN(const std::vector<Arrival> arrivals, ReadTrace(options.trace, 0));
    for (const Arrival& arrival : arrivals) {
      requests.push_back({arrival.seconds, arrival.input_tokens, arrival.output_tokens, 1});
    }
  } else {
    JANUS_ASSIGN_OR_RETURN(const auto windows, ReadRates(options.rates));
    const double groups = GroupsOf(options, windows);
    if (groups > kMostGroups) return TooMany(options, groups);
    requests = DrawDemand(windows, replay);
  }
  demand.begin_hours = KeepHours(options, requests) / 3600;
  if (!options.trace.empty()) {
    const double groups = GroupsOf(options, requests.size());
    if (groups > kMostGroups) return TooMany(options, groups);
    requests = SpreadDemand(requests, replay);
  }
  if (options.prefill_elsewhere) {
    for (SimulatedRequest& request : requests) request.cached = request.input - 1;
  }
  if (requests.empty()) {
    return InvalidArgument(
        (options.trace.empty() ? options.rates : options.trace) +
        ": has no request in the selected hours; change --from-hours, --hours or --scale");
  }
  return demand;
}

std::string Describe(const DemandOptions& options, const DemandRead& demand) {
  const std::vector<SimulatedRequest>& requests = demand.requests;
  double count = 0, input = 0, output = 0;
  for (const SimulatedRequest& request : requests) {
    count += request.weight;
    input += static_cast<double>(request.weight) * request.input;
    output += static_cast<double>(request.weight) * request.output;
  }
  char text[128];
  std::snprintf(text, sizeof(text), " x %.4g: %.0f requests in %.2f h (%zu groups of at most %d)",
                options.scale, count, requests.back().arrival / 3600, requests.size(),
                options.max_weight);
  std::string line = (options.trace.empty() ? options.rates : options.trace) + text;
  if (demand.begin_hours > 0) {
    std::snprintf(text, sizeof(text), " from hour %.2f of the file", demand.begin_hours);
    line += text;
  }
  std::snprintf(text, sizeof(text), ", mean %.0f tokens in%s, %.0f out", input / count,
                options.prefill_elsewhere ? " (computed elsewhere)" : "", output / count);
  return line + text;
}

}  // namespace janus::cli
