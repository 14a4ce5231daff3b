#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/clock.h"
#include "common/topology.h"
#include "operator/api/moeservice.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/epochs/epoch_watch.h"
#include "operator/reconcile/epochs/member_calls.h"
#include "operator/reconcile/epochs/next_step.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/observe/own_writes.h"
#include "operator/reconcile/pass/refusal.h"
#include "operator/reconcile/status/service_event.h"

namespace janus::control {

// The acts of next_step.h for one service in one term of leadership: writes the record, calls the
// members, and remembers what NextStep must know. Level-triggered: told the situation as often as
// one likes, it does what is next and never waits. Destroying it cancels its call. Confined.
class EpochDriver {
 public:
  // Both outlive this.
  EpochDriver(ObjectApi& api, MemberCalls& calls) : api_(api), calls_(calls), watch_(calls) {}

  struct Situation {
    const MoEService& service;
    std::string name;            // of the MoETopology to make if there is none; empty: make none
    std::optional<Node> record;  // the newest; nothing: none is there
    // What should serve, whatever its epoch's number, and how; nothing: nothing can be said, or
    // nothing should.
    std::optional<Topology> wanted;
    ServicePlan plan;  // with `wanted`
    std::set<InstanceId> alive;
    MonotonicTime now;
    CallLimits limits;  // of each write
    MemberCalls::Wake wake;
    WallTime wall = {};
    std::string model = {};  // with `wanted`: ModelOf
    // What is committed or proposed is not wanted any more; why, for people. Empty: it is.
    std::string ends = {};
    int64_t above = 0;          // of the topology beside this one: its lastEpoch
    bool may_propose = true;    // false: that one is about to change
    bool makes_record = false;  // before anything is wanted: it says that there are two sides
  };
  struct Outcome {
    std::optional<Refusal> refusal;      // a write was refused: nothing more was done
    std::optional<MonotonicTime> again;  // look again then, if nothing wakes before
    std::optional<Node> record;          // as it is now
  };
  // Before what is wanted is decided: hears what members of the committed epoch say of it, and asks
  // them when it is time to. `situation` without `wanted`.
  void Look(const Situation& situation, const TellEvent& tell, std::optional<MonotonicTime>& again);
  Outcome Advance(Situation situation, OwnWrites& writes, const TellEvent& tell);

  // Of this term; 0: it is not raised yet, and nobody may be called.
  int64_t fence() const { return progress_.fence; }
  // Every member that lives has heard of the committed epoch.
  bool HasTold(int64_t committed) const { return committed > 0 && progress_.told >= committed; }
  // Why that epoch goes on no more though its members live; empty: it does, as far as is known.
  std::string WhyLost(int64_t committed) const {
    return committed > 0 && progress_.lost == committed ? why_lost_ : "";
  }
  // Since when a member of the committed epoch has been asked in vain; nothing: it answers.
  std::optional<MonotonicTime> SilentSince(const InstanceId& member) const {
    return watch_.SilentSince(member);
  }
  // What the members of the committed epoch say when they are asked.
  const EpochWatch& watch() const { return watch_; }
  // What is under way or went wrong last: a condition's reason and message; empty: nothing.
  const std::string& reason() const { return reason_; }
  const std::string& message() const { return message_; }

 private:
  enum class Verb { kPrepare, kCommit, kAbort };
  struct Call {
    Verb verb;
    int64_t epoch;
    std::unique_ptr<MemberCall> call;
  };
  // kGoOn: the record or the progress moved; kWait: a call is under way; kStop: see the outcome.
  enum class Next { kGoOn, kWait, kStop };

  Next Act(const EpochStep& step, const MoETopology& record, Situation& situation,
           OwnWrites& writes, const TellEvent& tell, Outcome& outcome);
  Next Make(Situation& situation, OwnWrites& writes, Outcome& outcome);
  // Compare-and-swap: `change` is made to the record's tree, which is written and read back.
  Next Write(const std::string& doing, const std::function<void(Node& spec)>& change,
             Situation& situation, OwnWrites& writes, Outcome& outcome);
  Next RaiseFence(const MoETopology& record, Situation& situation, OwnWrites& writes,
                  Outcome& outcome);
  Next Propose(int64_t epoch, Situation& situation, OwnWrites& writes, Outcome& outcome);
  Next Prepare(int64_t epoch, const MoETopology& record, Situation& situation,
               const TellEvent& tell, Outcome& outcome);
  Next Commit(int64_t epoch, const MoETopology& record, Situation& situation, OwnWrites& writes,
              const TellEvent& tell, Outcome& outcome);
  Next Abort(const EpochStep& step, const TopologyRecord& proposed, Situation& situation,
             OwnWrites& writes, const TellEvent& tell, Outcome& outcome);
  Next Tell(int64_t epoch, const TopologyRecord& committed, Situation& situation,
            const TellEvent& tell, Outcome& outcome);
  Next End(int64_t epoch, Situation& situation, OwnWrites& writes, const TellEvent& tell,
           Outcome& outcome);
  // The call of that verb and epoch, begun if it is not under way. Done, failed or silent for too
  // long: its result, and it is forgotten. Nothing: it goes on.
  std::optional<Status> Follow(Verb verb, int64_t epoch, const TopologyRecord& of,
                               Situation& situation, Outcome& outcome);
  static void NotePlacement(const TopologyRecord& before, const TopologyRecord& after,
                            const TellEvent& tell);
  void NoteLeavers(int64_t epoch, const MoETopology& record);
  // Another set of hearers is told at once, however often telling the last one failed.
  void NoteHearers(const MoETopology& record, const Situation& situation);
  void Lose(int64_t epoch, const std::string& why, MonotonicTime now, const TellEvent& tell);
  MemberOrder OrderTo(int64_t epoch, const TopologyRecord& of, const Situation& situation) const;
  void Say(std::string reason, std::string message);
  void BackOff(MonotonicTime now);

  ObjectApi& api_;
  MemberCalls& calls_;
  LeaderProgress progress_;
  std::optional<Topology> preparing_;  // what was proposed last, whole, until it is prepared
  ServicePlan preparing_plan_;
  std::optional<Call> call_;
  EpochWatch watch_;
  std::set<InstanceId> hearers_;  // of the committed epoch, as far as they live, while it is told
  int tell_failures_ = 0;         // in a row, to these
  MonotonicTime told_at_;
  std::string why_lost_;                   // of progress_.lost
  int losses_ = 0;                         // of epochs, none of which served for long
  int64_t left_with_ = 0;                  // the epoch that came without them
  std::vector<TopologyInstance> leavers_;  // its predecessor's members that have no place in it
  int64_t aborted_ = 0;  // the epoch whose members were told to drop it, as far as they answered
  int failures_ = 0;     // in a row: of Prepare, or of Commit
  MonotonicTime not_before_;  // the next attempt
  std::string reason_;
  std::string message_;
};

}  // namespace janus::control
