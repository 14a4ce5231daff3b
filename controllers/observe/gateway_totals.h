#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/gateway_counts.h"
#include "common/latency_pairs.h"
#include "common/status.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// What the gateways of a service have counted together, over time. Each gateway counts from its own
// start, gateways come and go, and a look may miss one. This adds up what each has counted between
// two looks, so that a gateway that restarts shows as what it is: a gateway that counts from zero.
// A value; nothing here keeps any other state. Pure.
struct GatewayTotals {
  // Sums over all gateways since the first look. They only grow.
  struct Totals {
    double arrived = 0;
    double unread = 0;
    double prompt_tokens = 0;
    double prompt_squares = 0;
    double cached_prompt_tokens = 0;
    double finished = 0;
    double output_tokens = 0;
    friend bool operator==(const Totals&, const Totals&) = default;
  };
  struct Sample {
    double time_seconds = 0;
    Totals totals;
    friend bool operator==(const Sample&, const Sample&) = default;
  };
  // The newest report of a gateway.
  struct Known {
    GatewayCounts counts;
    double time_seconds = 0;  // of the last look that it was true at
    bool is_broken = false;   // a counter went back or too far: the next report begins anew
    friend bool operator==(const Known&, const Known&) = default;
  };

  std::vector<Sample> samples;         // oldest first, as far back as the longest window
  std::map<std::string, Known> known;  // by gateway id
  double first_time_seconds = 0;       // of the first look
  // Since the caller took them last: requests that ended, and latencies of those that finished.
  double ended = 0;
  LatencyPairs latencies;

  static constexpr size_t kMostSamples = 258;
  static constexpr size_t kMostKnown = 1024;

  friend bool operator==(const GatewayTotals&, const GatewayTotals&) = default;
};

// Takes a look, which must be later than all before. `keep_seconds` is the longest window that is
// asked for. The totals are up to date afterwards, whatever is returned. Unavailable names a
// gateway whose counts are missing. InvalidArgument names one whose numbers cannot be; they are
// left out.
//
// A gateway that is new counts from zero if it began after the first look; what it has counted is
// spread evenly over its life. One that began before and was not seen then has one known point
// only, so a second look is needed. What a gateway has counted between two looks that saw it is
// spread evenly over the time between these.
Status Take(const GatewayReports& reports, double time_seconds, double keep_seconds,
            GatewayTotals& totals);

// What came in the last `seconds`, and how many seconds of these the samples cover. Needs two
// samples.
struct Recent {
  double seconds = 0;
  GatewayTotals::Totals totals;
};
Recent Over(const GatewayTotals& totals, double seconds);

}  // namespace janus::controllers
