#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/topology.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/epochs/epoch_watch.h"
#include "operator/reconcile/epochs/epochs_seen.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/epochs/next_step.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/observe/own_writes.h"
#include "operator/reconcile/pass/refusal.h"
#include "operator/reconcile/status/service_event.h"

namespace janus::control {

// An epoch that is to serve. Its number is given when it is proposed.
struct EpochProposal {
  Topology topology;
  ServicePlan plan;
  std::string model;  // ModelOf
};

// The epochs of one MoETopology in one term of leadership: hears the members, carries out the steps
// of next_step.h, and holds what a step needs and no record keeps (the call under way, failures in
// a row). What is decided on is Seen(). Nothing here decides, and nothing waits: a call is begun
// and heard later. Destroying it cancels its call. Confined.
class EpochDriver {
 public:
  // Both outlive this.
  EpochDriver(ObjectApi& api, MemberCalls& calls) : api_(api), calls_(calls), watch_(calls) {}

  // The record as it was read. `topology` is its content, an ended epoch taken out.
  struct Record {
    ObjectKey service;
    std::string service_uid;
    const Node& object;
    const MoETopology& topology;
    const std::set<InstanceId>& alive;
    MonotonicTime now;
    WallTime wall;
  };
  // What writes and calls need.
  struct Means {
    CallLimits limits;  // of each write
    OwnWrites& writes;
    MemberCalls::Wake wake;
    const TellEvent& tell;
  };

  // Takes what members have answered, and asks those of the committed epoch when it is time to.
  // `again` is brought forward to when there is something to hear.
  void Hear(const Record& record, const MemberCalls::Wake& wake, const TellEvent& tell,
            std::optional<MonotonicTime>& again);
  EpochsSeen Seen(MonotonicTime now) const;

  // The record was made by this process just now.
  void Made();
  // Compare-and-swaps of the record. Nothing: it is done.
  std::optional<Refusal> RaiseFence(const Record& record, const Means& means);
  std::optional<Refusal> Propose(int64_t epoch, std::shared_ptr<const EpochProposal> proposal,
                                 const Record& record, const Means& means);
  std::optional<Refusal> Commit(int64_t epoch, const Record& record, const Means& means);
  std::optional<Refusal> Abort(int64_t epoch, const std::string& why, const Record& record,
                               const Means& means);
  std::optional<Refusal> End(int64_t epoch, const std::string& why, const Record& record,
                             const Means& means);
  // Begins a call to the members of the proposed epoch (kCommit: of the committed one) that live.
  void Begin(EpochCall verb, int64_t epoch, const Record& record, const Means& means);
  // Nothing is to be done, so nothing that went wrong before is to be said any more.
  void Settle() { Say("", ""); }

 private:
  struct Call {
    EpochCall verb;
    int64_t epoch;
    std::unique_ptr<MemberCall> call;
  };

  // `change` is made to the record's spec, which is written.
  std::optional<Refusal> Write(const std::string& doing,
                               const std::function<void(Node& spec)>& change, const Record& record,
                               const Means& means);
  void HearCall(const Record& record, const TellEvent& tell, std::optional<MonotonicTime>& again);
  void Watch(const Record& record, const MemberCalls::Wake& wake, const TellEvent& tell,
             std::optional<MonotonicTime>& again);
  void TakeResult(EpochCall verb, int64_t epoch, const Status& result, MonotonicTime now,
                  const TellEvent& tell, std::optional<MonotonicTime>& again);
  void TakePrepared(int64_t epoch, const Status& result, MonotonicTime now, const TellEvent& tell);
  void TakeTold(int64_t epoch, const Status& result, MonotonicTime now, const TellEvent& tell,
                std::optional<MonotonicTime>& again);
  static void TellPlacement(const TopologyRecord& before, const TopologyRecord& after,
                            const TellEvent& tell);
  void NoteLeavers(int64_t epoch, const MoETopology& topology);
  // Another set of hearers gets a call at once, however often calls to the last set failed.
  void NoteHearers(const Record& record);
  void Lose(int64_t epoch, const std::string& why, MonotonicTime now, const TellEvent& tell);
  MemberOrder OrderTo(int64_t epoch, const TopologyRecord& of, const Record& record) const;
  void Say(std::string reason, std::string message) {
    under_way_ = {std::move(reason), std::move(message)};
  }
  void BackOff(MonotonicTime now);

  ObjectApi& api_;
  MemberCalls& calls_;
  LeaderProgress progress_;
  std::shared_ptr<const EpochProposal> proposal_;  // the last one, until it is prepared
  std::optional<Call> call_;
  EpochWatch watch_;
  std::set<InstanceId> hearers_;  // live members of the committed epoch, until all have heard of it
  int tell_failures_ = 0;         // in a row, to these
  MonotonicTime told_at_;
  std::string why_lost_;                   // of progress_.lost
  int losses_ = 0;                         // of epochs, none of which served for long
  int64_t left_with_ = 0;                  // the epoch that came without them
  std::vector<TopologyInstance> leavers_;  // its predecessor's members that have no place in it
  int64_t dropped_ = 0;  // the epoch whose members were told to drop it, as far as they answered
  int failures_ = 0;     // in a row: of Prepare, or of Commit
  MonotonicTime not_before_;  // the next attempt
  Cause under_way_;
};

}  // namespace janus::control
