#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "tests/support/faulty_transport.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {

// A small service that answers a few requests while something is done to its messages.
struct Service {
  Topology topology;
  StepDeadlines deadlines{Scaled(Seconds(0.2)), Scaled(Seconds(8.0))};
  int requests = 2;
  int prompt = 3;
  int prefill_rows = 0;  // prompt positions of a step; 0: as the ticket says
  int max_tokens = 3;
  std::optional<int> at;  // the attention instance of all requests; they go to all in turn
  // Of each member's device, and how these are connected; null: the host.
  std::function<std::unique_ptr<kernels::Context>()> make_context = nullptr;
  Join device_join = nullptr;
};

using Faults = std::map<PeerId, std::vector<PlannedFault>>;

struct Served {
  std::vector<LoopbackCluster::Outcome> outcomes;  // by request
  Status failure;                                  // of any step loop
  std::map<PeerId, int> messages;
  std::vector<InstanceStatistics> statistics;  // attention, then experts

  // Missed rounds of all members.
  uint64_t rounds_missed() const;
};

// What a test does while the requests are under way.
using Meanwhile = std::function<void(LoopbackCluster&)>;

// Requests go to the attention instances in turn; each wants the hashes of its logits. `wrap` goes
// round the members' transports, inside of what is planned.
Served Serve(const HeldModel& held, const Service& service, const Faults& faults = {},
             const LoopbackCluster::WrapTransport& wrap = nullptr,
             const Meanwhile& meanwhile = nullptr);

// How the answers differ from those of an undisturbed run, for each request that ended: tokens,
// bits of the logits. Of one that ended with an error, what it has must be a beginning.
std::string Differences(const Served& run, const Served& whole);
// All requests ended, and not with an error.
bool Complete(const Served& run);

}  // namespace janus::dataplane
