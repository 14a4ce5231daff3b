#pragma once

#include <optional>
#include <vector>

#include "common/statistics.h"
#include "common/status.h"
#include "controllers/observe/gateway_totals.h"
#include "controllers/scaling/policy.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// From what a running service reports to the world that a scaling decision sees. Pure: no clock, no
// I/O; what one look remembers for the next is a value that goes in and comes out.

// One look at a service.
struct Look {
  double time_seconds = 0;  // on World's clock
  // Of all members of the committed topology, as one of them has joined it.
  Statistics statistics;
  // What the caller knows itself; they go into the world as they are.
  Configuration current;
  RoleState attention;
  RoleState experts;
  std::optional<InFlight> in_flight;
  bool is_paused = false;
  bool is_rolling_out = false;
};

struct ObserveOptions {
  LatencyTarget tpot;
  std::optional<LatencyTarget> ttft = {};
  // Over which arrivals are averaged, shortest first (ReactedTo has the first two); the last also
  // tells the lengths.
  std::vector<double> windows_seconds = {15, 60, 300};
  uint64_t warm_up_steps = 100;  // of an instance, which are not measured
};

// What looks remember. Bounded. A new service, or an operator that has lost it, begins with an
// empty one.
struct LookHistory {
  GatewayTotals gateways;
  std::optional<double> last_time_seconds;
  Statistics last;  // of the last look: instances alone
};

// The world at this look, from it and those before. Called once for every decision: what ended is
// told once. An error says why there is none, and names the instance or gateway; then hold, and
// look again after the next interval.
//
// Unavailable (of a decision, Reason::kNoMetrics): counters are missing. That is never taken for no
// traffic: a service whose gateways are attached and count nothing new has none, and its world says
// so. InvalidArgument (Reason::kBadStatistics): a number that cannot be.
Result<World> WorldFrom(const Look& look, const ObserveOptions& options, LookHistory& history);

}  // namespace janus::controllers
