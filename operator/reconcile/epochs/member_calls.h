#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/control.h"
#include "common/statistics.h"
#include "common/status.h"
#include "common/topology.h"
#include "operator/api/moe_topology.h"
#include "operator/kube/object.h"
#include "operator/reconcile/capacity/service_plan.h"

namespace janus::control {

// Calls from the reconcile loop to the workers of a service. No function waits: it starts a call,
// which continues in the background and is checked later. `wake` is called, on any thread, when
// checking is worthwhile.

// A running call. Destroying it cancels it; after that neither it nor `wake` runs. Thread-safe.
class MemberCall {
 public:
  virtual ~MemberCall() = default;
  virtual bool done() const = 0;
  // REQUIRES: done(). An error names the member.
  virtual Status result() const = 0;
  // Of Prepare: what all members have loaded together.
  virtual PrepareProgress progress() const { return {}; }
  // When a member last answered; at first the call's start.
  virtual MonotonicTime last_heard() const = 0;
  // Of Prepare: members that have not answered, longest silent first, for messages.
  virtual std::string waiting_for() const { return {}; }
};

// Asks members for their statistics.
class StatisticsQuestion : public MemberCall {
 public:
  // From members that answered; `silent` names the others (MemberName). REQUIRES: done(), and
  // result() is OK.
  virtual Statistics statistics() const = 0;
};

struct MemberOrder {
  ObjectKey service;
  std::string service_uid;
  int64_t fence = 0;  // workers refuse a call with a lower fence than they have seen
  int64_t epoch = 0;
  // The recipients: the epoch's live instances by rank, attention first.
  std::vector<TopologyInstance> members;
  // With Commit: members of the previous epoch without a place in this one. They stop and return
  // their requests once all members have committed; best effort.
  std::vector<TopologyInstance> leavers = {};
  // With Ask: also ask how often each expert was chosen.
  bool with_popularity = false;
  // And for at most so many of the rounds that expert instances have sampled, the newest ones.
  uint32_t with_rounds = 0;
  // And for how one step went, with at most so many spans.
  uint32_t with_spans = 0;
  // With Ask: the answer comes when the member that relays the question has lost the epoch, and
  // otherwise after this time.
  std::chrono::milliseconds until_loss{0};
  // The pool of the members: a worker of another pool refuses. 0: not named.
  int pool = 0;
};

// For an ended epoch: the topology that serves instead.
struct Successor {
  Topology topology;  // its epoch and its instances' addresses
  std::string text_digest;
};

// Uses gRPC on a cluster and on one machine; scripted in tests. Thread-safe.
class MemberCalls {
 public:
  using Wake = std::function<void()>;

  virtual ~MemberCalls() = default;

  // Every member loads and connects what the topology needs, while it still serves its current
  // epoch. The topology's epoch equals the order's.
  virtual std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology& topology,
                                              const ServicePlan& plan, Wake wake) = 0;
  // The prepared epoch serves from now on. Idempotent.
  virtual std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake wake) = 0;
  // Members drop what they prepared for the epoch. Idempotent.
  virtual std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake wake) = 0;
  // Members accept no new requests. Done when current requests have ended; fails after `longest`.
  // Members of an older epoch than the order's leave at once and return their requests. Idempotent.
  virtual std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds longest,
                                            Wake wake) = 0;
  // Members announce the successor to gateways that use its tokenizer, and continue to serve.
  // Idempotent.
  virtual std::unique_ptr<MemberCall> Supersede(const MemberOrder& order,
                                                const Successor& successor, Wake wake) = 0;
  // Every member's statistics, whatever its epoch. Wakes only if a member holds or has not
  // answered; otherwise the answer can wait for the next pass.
  virtual std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake wake) = 0;
};

}  // namespace janus::control
