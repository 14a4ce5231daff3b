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

// An epoch to propose. It gets its number when it is proposed.
struct EpochProposal {
  Topology topology;
  ServicePlan plan;
  std::string model;  // ModelOf
  // Why experts are placed anew, for the Event PlacementChanged; empty: only because instances have
  // changed.
  std::string why_placed = {};
  // Which exchange mode it has, with the gate on which side, and why, for the Event
  // ExchangeModeChanged.
  std::string why_mode = {};
};

// The epochs of one MoETopology during one term of leadership. It takes members' answers, carries
// out the steps of next_step.h, and holds what no record stores (the running call, failures in a
// row). It reports its state through Seen() and decides nothing. It never waits: it starts a call
// and reads the result later. Its destructor cancels the call. Confined.
class EpochDriver {
 public:
  // Both outlive this.
  EpochDriver(ObjectApi& api, MemberCalls& calls) : api_(api), calls_(calls), watch_(calls) {}

  // The record as read. `topology` is its content without an ended epoch.
  struct Record {
    ObjectKey service;
    std::string service_uid;
    const Node& object;
    const MoETopology& topology;
    const std::set<InstanceId>& alive;
    MonotonicTime now;
    WallTime wall;
    // How often members of the committed epoch are asked for their counters.
    std::chrono::milliseconds look_every = kLookEvery;
  };
  // For writes and calls.
  struct Means {
    CallLimits limits;  // of each write
    OwnWrites& writes;
    MemberCalls::Wake wake;
    const TellEvent& tell;
  };

  // Takes members' answers, and asks members of the committed epoch when that is due. Moves `again`
  // forward to the next time with something to read.
  void Hear(const Record& record, const MemberCalls::Wake& wake, const TellEvent& tell,
            std::optional<MonotonicTime>& again);
  EpochsSeen Seen(MonotonicTime now) const;

  // This process has just created the record.
  void Made();
  // Compare-and-swap writes of the record. Nothing: success.
  std::optional<Refusal> RaiseFence(const Record& record, const Means& means);
  std::optional<Refusal> Propose(int64_t epoch, std::shared_ptr<const EpochProposal> proposal,
                                 const Record& record, const Means& means);
  std::optional<Refusal> Commit(int64_t epoch, const Record& record, const Means& means);
  std::optional<Refusal> Abort(int64_t epoch, const std::string& why, const Record& record,
                               const Means& means);
  std::optional<Refusal> End(int64_t epoch, const std::string& why, const Record& record,
                             const Means& means);
  // Starts a call to the live members of the proposed epoch (kCommit: of the committed one).
  void Begin(EpochCall verb, int64_t epoch, const Record& record, const Means& means);
  // No step is due, so earlier problems are no longer reported.
  void Settle() { Say("", ""); }

 private:
  struct Call {
    EpochCall verb;
    int64_t epoch;
    std::unique_ptr<MemberCall> call;
  };

  // Applies `change` to the record's spec and writes it.
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
  void TellPlacement(const TopologyRecord& before, const TopologyRecord& after,
                     const TellEvent& tell) const;
  void TellMode(const TopologyRecord& before, const TopologyRecord& after,
                const TellEvent& tell) const;
  void NoteLeavers(int64_t epoch, const MoETopology& topology);
  // If the set of recipients changed, it is called at once, whatever failures the last set had.
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
  std::shared_ptr<const EpochProposal> proposal_;  // the latest, until it is prepared
  std::string why_placed_;                         // of the latest
  std::string why_mode_;                           // likewise
  std::optional<Call> call_;
  EpochWatch watch_;
  std::set<InstanceId> hearers_;  // live members of the committed epoch, until all know of it
  int tell_failures_ = 0;         // in a row, for these members
  MonotonicTime told_at_;
  std::string why_lost_;                   // of progress_.lost
  int losses_ = 0;                         // of epochs that each served only briefly
  int64_t left_with_ = 0;                  // the epoch that excludes leavers_
  std::vector<TopologyInstance> leavers_;  // members of its predecessor without a place in it
  int64_t dropped_ = 0;                    // its members were told to drop this epoch
  int failures_ = 0;                       // in a row: of Prepare, or of Commit
  MonotonicTime not_before_;               // time of the next attempt
  Cause under_way_;
};

}  // namespace janus::control
