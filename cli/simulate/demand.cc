#include "cli/simulate/demand.h"

#include <cmath>
#include <cstdio>

#include "cli/simulate/rates_file.h"
#include "cli/trace.h"

namespace janus::cli {

using controllers::SimulatedRequest;

Result<std::vector<SimulatedRequest>> ReadDemand(const DemandOptions& options) {
  if (options.trace.empty() == options.rates.empty()) {
    return InvalidArgument("simulate: want --trace or --rates, the demand to replay");
  }
  controllers::Replay replay;
  replay.factor = options.scale;
  replay.max_weight = options.max_weight;
  replay.seed = options.seed;
  std::vector<SimulatedRequest> requests;
  if (!options.trace.empty()) {
    JANUS_ASSIGN_OR_RETURN(const std::vector<Arrival> arrivals, ReadTrace(options.trace, 0));
    for (const Arrival& arrival : arrivals) {
      requests.push_back({arrival.seconds, arrival.input_tokens, arrival.output_tokens, 1});
    }
  } else {
    JANUS_ASSIGN_OR_RETURN(const auto windows, ReadRates(options.rates));
    requests = DrawDemand(windows, replay);
  }
  const double from = options.from_hours * 3600;
  const double until = options.hours > 0 ? from + options.hours * 3600 : HUGE_VAL;
  std::erase_if(requests, [&](const SimulatedRequest& request) {
    return request.arrival < from || request.arrival >= until;
  });
  for (SimulatedRequest& request : requests) request.arrival -= from;
  if (!options.trace.empty()) requests = SpreadDemand(requests, replay);
  if (options.prefill_elsewhere) {
    for (SimulatedRequest& request : requests) request.cached = request.input - 1;
  }
  if (requests.empty()) {
    return InvalidArgument((options.trace.empty() ? options.rates : options.trace) +
                           ": has no request in the hours asked for; see --from-hours, --hours and "
                           "--scale");
  }
  return requests;
}

std::string Describe(const DemandOptions& options, const std::vector<SimulatedRequest>& requests) {
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
  std::snprintf(text, sizeof(text), ", mean %.0f tokens in%s, %.0f out", input / count,
                options.prefill_elsewhere ? " (computed elsewhere)" : "", output / count);
  return line + text;
}

}  // namespace janus::cli
