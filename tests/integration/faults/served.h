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

// A small service that answers a few requests while faults hit its messages.
struct Service {
  Topology topology;
  Compression compression = Compression::kNone;
  int sum_bits = 0;  // of the sum rule FixedPoint; 0: contributions
  StepDeadlines deadlines{Scaled(Seconds(0.2)), Scaled(Seconds(8.0))};
  int requests = 2;
  int prompt = 3;
  int prefill_rows = 0;  // prompt positions of a step; 0: as in the ticket
  int max_tokens = 3;
  std::optional<int> at;  // the attention instance of all requests; absent: all in turn
  // Makes each member's device, and connects these; null: the host.
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

// Called while the requests run.
using Meanwhile = std::function<void(LoopbackCluster&)>;

// Requests go to the attention instances in turn; each wants the hashes of its logits. `wrap` wraps
// the members' transports, inside the planned faults.
Served Serve(const HeldModel& held, const Service& service, const Faults& faults = {},
             const LoopbackCluster::WrapTransport& wrap = nullptr,
             const Meanwhile& meanwhile = nullptr);

// How the answers differ from those of an undisturbed run, in tokens and bits of the logits. A
// request that ended with an error must have a beginning of its answer.
std::string Differences(const Served& run, const Served& whole);
// Whether all requests ended without an error.
bool Complete(const Served& run);

}  // namespace janus::dataplane
