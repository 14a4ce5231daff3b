#include "cli/plan/traffic_file.h"

#include <algorithm>
#include <vector>

#include "cli/trace.h"
#include "common/format.h"

namespace janus::cli {
namespace {

constexpr double kWindow_s = 300;
constexpr double kShortest_s = 60;  // a shorter trace gives no rate

double BusiestRate(const std::vector<Arrival>& arrivals) {
  const double span = arrivals.back().seconds - arrivals.front().seconds;
  if (span < kWindow_s) return static_cast<double>(arrivals.size() - 1) / span;
  size_t most = 0;
  for (size_t from = 0, to = 0; to < arrivals.size(); ++to) {
    while (arrivals[to].seconds - arrivals[from].seconds >= kWindow_s) ++from;
    most = std::max(most, to + 1 - from);
  }
  return static_cast<double>(most) / kWindow_s;
}

}  // namespace

Result<controllers::Traffic> ReadTraffic(const std::string& path) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<Arrival> arrivals, ReadTrace(path, 0));
  controllers::Traffic traffic;
  const double span = arrivals.back().seconds - arrivals.front().seconds;
  if (span < kShortest_s) {
    return InvalidArgument(path + ": its requests arrive within " + Format("%.3g", span) +
                           " s, too short to give a rate; want at least 60 s of requests");
  }
  traffic.requests_per_second = BusiestRate(arrivals);
  double prompts = 0, outputs = 0;
  std::vector<double> lengths;
  for (const Arrival& arrival : arrivals) {
    prompts += arrival.input_tokens;
    outputs += arrival.output_tokens;
    lengths.push_back(arrival.input_tokens);
  }
  traffic.prompt_tokens = prompts / static_cast<double>(arrivals.size());
  traffic.output_tokens = outputs / static_cast<double>(arrivals.size());
  traffic.prompt_law = controllers::LawOfLengths(std::move(lengths));
  return traffic;
}

}  // namespace janus::cli
