#pragma once

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

// What the reconcile loop says to the workers of a service. Nothing here waits: a call is begun,
// goes on by itself and is asked later how it went; `wake` is called, on any thread, when it is
// worth asking.

// A call under way. Destroying it cancels it; nothing of it goes on afterwards, `wake` included.
// Thread-safe.
class MemberCall {
 public:
  virtual ~MemberCall() = default;
  virtual bool done() const = 0;
  // REQUIRES: done(). An error names the member.
  virtual Status result() const = 0;
  // Of Prepare: what all members together have loaded.
  virtual PrepareProgress progress() const { return {}; }
  // When any member was last heard of; the call's beginning at first.
  virtual MonotonicTime last_heard() const = 0;
  // Of Prepare: whose answer is still awaited, longest silent first, for messages.
  virtual std::string waiting_for() const { return {}; }
};

// A question for what members know of themselves.
class StatisticsQuestion : public MemberCall {
 public:
  // Of members that answered; the others are in `silent`, by MemberName. REQUIRES: done(), and
  // result() is OK.
  virtual Statistics statistics() const = 0;
};

struct MemberOrder {
  ObjectKey service;
  std::string service_uid;
  int64_t fence = 0;  // workers refuse what comes with less than they have seen
  int64_t epoch = 0;
  // The recipients: the epoch's live instances, in order of rank, attention first.
  std::vector<TopologyInstance> members;
  // With Commit: members of the epoch before that have no place in this one. They end their part
  // and give back their requests once all have committed; best effort.
  std::vector<TopologyInstance> leavers = {};
  // With Ask: how often each expert was chosen, too.
  bool with_popularity = false;
};

// Of an epoch that is ended: what serves in its place.
struct Successor {
  Topology topology;  // its epoch and its instances' addresses
  std::string text_digest;
};

// Over gRPC on a cluster and on one machine; scripted in tests. Thread-safe.
class MemberCalls {
 public:
  using Wake = std::function<void()>;

  virtual ~MemberCalls() = default;

  // Every member loads and connects what the topology asks of it, beside what it serves. The
  // topology's epoch is the order's.
  virtual std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology& topology,
                                              const ServicePlan& plan, Wake wake) = 0;
  // The prepared epoch serves from now on. Idempotent.
  virtual std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake wake) = 0;
  // What was prepared for the epoch is dropped. Idempotent.
  virtual std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake wake) = 0;
  // Members take no new requests; done when those they have are over, or with an error after
  // `longest`. Members of an older epoch than the order's leave at once, and give back what they
  // have. Idempotent.
  virtual std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds longest,
                                            Wake wake) = 0;
  // From now on members announce the successor to gateways that use its tokenizer. What members
  // serve goes on. Idempotent.
  virtual std::unique_ptr<MemberCall> Supersede(const MemberOrder& order,
                                                const Successor& successor, Wake wake) = 0;
  // What every member knows of itself, whatever its epoch. Wakes only when a member holds or has
  // not answered: if all is well, the answer can wait for the next pass.
  virtual std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake wake) = 0;
};

}  // namespace janus::control
