#include "operator/reconcile/epochs/epoch_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/epochs/member_name.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {
namespace {

// Prepare may take as long as it likes, as long as it goes on (architecture.md, Processes).
constexpr std::chrono::seconds kSilence{60};
constexpr std::chrono::seconds kAnswer{10};  // to Commit and Abort
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{60};
// An epoch that so many attempts could not tell to all is lost: who has prepared another one since,
// or began anew unseen, can never serve it.
constexpr int kTellTries = 3;
// An epoch that has served for so long was whole: its loss is no sign that the next is lost too.
constexpr std::chrono::minutes kSteady{5};
// More than one pass ever does: from a raised fence to a proposal whose Prepare is under way.
constexpr int kMostSteps = 12;

std::string Name(int64_t epoch) {
  return "epoch " + std::to_string(epoch);
}

void Erase(Node& map, std::string_view field) {
  std::erase_if(map.fields, [&](const NodeField& one) { return one.name == field; });
}

std::chrono::seconds PauseAfter(int failures) {
  return std::min(kFirstPause * (1 << std::min(failures, 10)), kLongestPause);
}

}  // namespace

void EpochDriver::Say(std::string reason, std::string message) {
  reason_ = std::move(reason);
  message_ = std::move(message);
}

void EpochDriver::BackOff(MonotonicTime now) {
  not_before_ = now + PauseAfter(failures_++);
}

void EpochDriver::NoteHearers(const MoETopology& record, const Situation& situation) {
  const std::optional<TopologyRecord>& committed = record.spec.committed;
  if (!committed || progress_.told >= committed->epoch || record.spec.proposed) return;
  std::set<InstanceId> hearers;
  for (const TopologyInstance& one : AliveOf(*committed, situation.alive)) {
    hearers.insert(IdOf(one));
  }
  if (hearers == hearers_) return;
  hearers_ = std::move(hearers);
  tell_failures_ = failures_ = 0;
  not_before_ = situation.now;
  progress_.tell_failed = false;
  if (call_ && call_->verb == Verb::kCommit) call_.reset();
}

void EpochDriver::Look(const Situation& situation, const TellEvent& tell,
                       std::optional<MonotonicTime>& again) {
  if (!situation.record) return;
  Parsed<MoETopology> parsed = ParseMoETopology(*situation.record);
  TakeEnded(parsed.object);
  const std::optional<TopologyRecord>& committed = parsed.object.spec.committed;
  if (!parsed.errors.empty() || !committed) return;
  if (progress_.fence != parsed.object.spec.fence) return;
  // Who was not asked to serve it yet cannot have lost it.
  if (progress_.told < committed->epoch && !progress_.tell_failed) return;
  const MemberOrder order = OrderTo(committed->epoch, *committed, situation);
  if (order.members.empty()) return;
  watch_.Look(order, *committed, situation.now, situation.wake, again);
  if (!watch_.why_lost().empty()) Lose(committed->epoch, watch_.why_lost(), situation.now, tell);
}

void EpochDriver::Lose(int64_t epoch, const std::string& why, MonotonicTime now,
                       const TellEvent& tell) {
  if (progress_.lost == epoch) return;
  progress_.lost = epoch;
  why_lost_ = Name(epoch) + " is lost: " + why;
  if (now >= told_at_ + kSteady) losses_ = 0;
  // The first is followed at once.
  if (losses_ > 0) not_before_ = std::max(not_before_, now + PauseAfter(losses_));
  ++losses_;
  Say("", "");
  tell({EventType::kWarning, "Watch", {"TopologyLost", why_lost_}});
}

MemberOrder EpochDriver::OrderTo(int64_t epoch, const TopologyRecord& of,
                                 const Situation& situation) const {
  MemberOrder order{KeyOf(*situation.record), situation.service.metadata.uid, progress_.fence,
                    epoch, AliveOf(of, situation.alive)};
  order.service.name = situation.service.metadata.name;
  return order;
}

EpochDriver::Outcome EpochDriver::Advance(Situation situation, OwnWrites& writes,
                                          const TellEvent& tell) {
  Outcome outcome;
  for (int i = 0; i < kMostSteps; ++i) {
    if (!situation.record) {
      if (situation.name.empty() || !(situation.wanted || situation.makes_record)) break;
      if (Make(situation, writes, outcome) != Next::kGoOn) break;
    }
    Parsed<MoETopology> parsed = ParseMoETopology(*situation.record);
    if (!parsed.errors.empty()) {
      outcome.refusal =
          Refusal{RefusalKind::kInvalid,
                  {"InvalidTopology", parsed.errors[0].path + " " + parsed.errors[0].message},
                  {}};
      break;
    }
    TakeEnded(parsed.object);
    const MoETopology& record = parsed.object;
    progress_.ends = !situation.ends.empty();
    NoteHearers(record, situation);
    progress_.above = situation.above;
    progress_.may_propose = situation.may_propose && situation.now >= not_before_;
    std::optional<EpochContent> wanted;
    if (situation.wanted) wanted = ContentOf(*situation.wanted);
    const EpochStep step = NextStep(EpochRecordOf(record), progress_, wanted, situation.alive);
    if (step.kind == EpochStepKind::kNothing) {
      if (situation.now < not_before_) {
        BringForward(outcome.again, not_before_);
      } else {
        Say("", "");
      }
      break;
    }
    if (Act(step, record, situation, writes, tell, outcome) != Next::kGoOn) break;
  }
  outcome.record = std::move(situation.record);
  return outcome;
}

EpochDriver::Next EpochDriver::Act(const EpochStep& step, const MoETopology& record,
                                   Situation& situation, OwnWrites& writes, const TellEvent& tell,
                                   Outcome& outcome) {
  using Kind = EpochStepKind;
  switch (step.kind) {
    case Kind::kNothing:
      return Next::kStop;
    case Kind::kRaiseFence:
      return RaiseFence(record, situation, writes, outcome);
    case Kind::kTell:
      return Tell(step.epoch, *record.spec.committed, situation, tell, outcome);
    case Kind::kAbort:
      return Abort(step, *record.spec.proposed, situation, writes, tell, outcome);
    case Kind::kPropose:
      return Propose(step.epoch, situation, writes, outcome);
    case Kind::kPrepare:
    case Kind::kWait:
      return Prepare(step.epoch, record, situation, tell, outcome);
    case Kind::kCommit:
      return Commit(step.epoch, record, situation, writes, tell, outcome);
    case Kind::kEnd:
      return End(step.epoch, situation, writes, tell, outcome);
  }
  return Next::kStop;
}

EpochDriver::Next EpochDriver::Make(Situation& situation, OwnWrites& writes, Outcome& outcome) {
  Node object =
      Object({{"apiVersion", Text(kApiVersion)},
              {"kind", Text(kTopologies.kind)},
              {"metadata", Node::Map()},
              {"spec", Object({{"fence", Node::Integer(1)}, {"lastEpoch", Node::Integer(0)}})}});
  MakeOwned(situation.service, situation.name, LabelsOf(situation.service, "topology"), object);
  ApiResult<Node> made = api_.Create(kTopologies, object, {}, situation.limits);
  if (!made.ok()) {
    if (made.error().outcome_unknown) {
      writes.MayHaveMade(kTopologies, KeyOf(object));
    }
    outcome.refusal = RefusalOf(made.error(), "create MoETopology " + situation.name);
    return Next::kStop;
  }
  writes.Wrote(kTopologies, "", *made, situation.now);
  situation.record = *std::move(made);
  progress_ = LeaderProgress();
  progress_.fence = 1;
  return Next::kGoOn;
}

EpochDriver::Next EpochDriver::Write(const std::string& doing,
                                     const std::function<void(Node& spec)>& change,
                                     Situation& situation, OwnWrites& writes, Outcome& outcome) {
  Node object = *situation.record;
  const std::string replaced(ResourceVersionOf(object));
  Node spec = *object.Find("spec");
  change(spec);
  SetAt(object, {"spec"}, std::move(spec));
  ApiResult<Node> written =
      api_.Update(kTopologies, object, Subresource::kNone, {}, situation.limits);
  if (!written.ok()) {
    outcome.refusal = RefusalOf(written.error(), doing);
    return Next::kStop;
  }
  writes.Wrote(kTopologies, replaced, *written, situation.now);
  situation.record = *std::move(written);
  return Next::kGoOn;
}

EpochDriver::Next EpochDriver::RaiseFence(const MoETopology& record, Situation& situation,
                                          OwnWrites& writes, Outcome& outcome) {
  call_.reset();
  const int64_t fence = record.spec.fence + 1;
  const Next next = Write(
      "raise the fence", [&](Node& spec) { SetAt(spec, {"fence"}, Node::Integer(fence)); },
      situation, writes, outcome);
  if (next == Next::kGoOn) {
    progress_ = LeaderProgress();
    progress_.fence = fence;
    hearers_.clear();
    watch_.Forget();
  }
  return next;
}

EpochDriver::Next EpochDriver::Propose(int64_t epoch, Situation& situation, OwnWrites& writes,
                                       Outcome& outcome) {
  Topology topology = *situation.wanted;
  topology.epoch = static_cast<uint64_t>(epoch);
  const Next next = Write(
      "propose " + Name(epoch),
      [&](Node& spec) {
        SetAt(spec, {"lastEpoch"}, Node::Integer(epoch));
        Node proposed = RecordTree(topology);
        proposed.Add("model", Text(situation.model));
        SetAt(spec, {"proposed"}, std::move(proposed));
      },
      situation, writes, outcome);
  if (next == Next::kGoOn) {
    progress_.preparing = epoch;
    progress_.prepare = PrepareState::kNone;
    preparing_ = std::move(topology);
    preparing_plan_ = situation.plan;
  }
  return next;
}

EpochDriver::Next EpochDriver::End(int64_t epoch, Situation& situation, OwnWrites& writes,
                                   const TellEvent& tell, Outcome& outcome) {
  call_.reset();
  const Next next = Write(
      "end " + Name(epoch),
      [&](Node& spec) {
        SetAt(spec, {"endedEpoch"}, Node::Integer(epoch));
        SetAt(spec, {"endedAt"}, Text(FormatTime(situation.wall)));
      },
      situation, writes, outcome);
  if (next == Next::kGoOn) {
    Say("", "");
    tell({EventType::kNormal,
          "End",
          {"TopologyEnded", Name(epoch) + " is ended: " + situation.ends}});
  }
  return next;
}

std::optional<Status> EpochDriver::Follow(Verb verb, int64_t epoch, const TopologyRecord& of,
                                          Situation& situation, Outcome& outcome) {
  if (!call_ || call_->verb != verb || call_->epoch != epoch) {
    call_.reset();
    MemberOrder order = OrderTo(epoch, of, situation);
    if (order.members.empty()) return OkStatus();  // nobody is left to hear it
    if (verb == Verb::kCommit && epoch == left_with_) {
      order.leavers = leavers_;
    }
    std::unique_ptr<MemberCall> call;
    switch (verb) {
      case Verb::kPrepare:
        call = calls_.Prepare(order, *preparing_, preparing_plan_, situation.wake);
        break;
      case Verb::kCommit:
        call = calls_.Commit(order, situation.wake);
        break;
      case Verb::kAbort:
        call = calls_.Abort(order, situation.wake);
        break;
    }
    call_ = Call{verb, epoch, std::move(call)};
  }
  if (call_->call->done()) {
    Status result = call_->call->result();
    call_.reset();
    return result;
  }
  const auto silence = verb == Verb::kPrepare ? kSilence : kAnswer;
  const MonotonicTime until = call_->call->last_heard() + silence;
  if (situation.now >= until) {
    const std::string waiting = call_->call->waiting_for();
    call_.reset();
    return DeadlineExceeded("no sign of " + (waiting.empty() ? "a member" : waiting) + " for " +
                            std::to_string(silence.count()) + " s");
  }
  BringForward(outcome.again, until);
  return std::nullopt;
}

EpochDriver::Next EpochDriver::Prepare(int64_t epoch, const MoETopology& record,
                                       Situation& situation, const TellEvent& tell,
                                       Outcome& outcome) {
  progress_.prepare = PrepareState::kRunning;
  // Why the last attempt failed is worth more than that there is another one.
  if (failures_ == 0) {
    const bool is_lost = record.spec.committed && progress_.lost == record.spec.committed->epoch;
    Say("Preparing", Name(epoch) + " is being prepared" + (is_lost ? "; " + why_lost_ : ""));
  }
  const std::optional<Status> result =
      Follow(Verb::kPrepare, epoch, *record.spec.proposed, situation, outcome);
  if (!result) return Next::kWait;
  preparing_.reset();
  if (result->ok()) {
    progress_.prepare = PrepareState::kDone;
    tell({EventType::kNormal, "Prepare", {"TopologyPrepared", Name(epoch) + " is prepared"}});
  } else {
    progress_.prepare = PrepareState::kFailed;
    BackOff(situation.now);
    Say(result->code() == StatusCode::kUnavailable ||
                result->code() == StatusCode::kDeadlineExceeded
            ? "WorkerUnreachable"
            : "PrepareFailed",
        "prepare " + Name(epoch) + ": " + result->message());
  }
  return Next::kGoOn;
}

void EpochDriver::NoteLeavers(int64_t epoch, const MoETopology& record) {
  std::vector<TopologyInstance> leavers;
  if (const std::optional<TopologyRecord>& before = record.spec.committed) {
    leavers = Without(*before, *record.spec.proposed);
    // Of an epoch that not all have heard of, those may not have heard either who left with it.
    if (left_with_ == before->epoch && progress_.told < before->epoch) {
      TopologyRecord untold;
      untold.instances = std::move(leavers_);
      for (TopologyInstance& one : Without(untold, *record.spec.proposed)) {
        leavers.push_back(std::move(one));
      }
    }
  }
  left_with_ = epoch;
  leavers_ = std::move(leavers);
}

EpochDriver::Next EpochDriver::Commit(int64_t epoch, const MoETopology& record,
                                      Situation& situation, OwnWrites& writes,
                                      const TellEvent& tell, Outcome& outcome) {
  const TopologyRecord& proposed = *record.spec.proposed;
  const Next next = Write(
      "commit " + Name(epoch),
      [](Node& spec) {
        SetAt(spec, {"committed"}, *spec.Find("proposed"));
        Erase(spec, "proposed");
      },
      situation, writes, outcome);
  if (next == Next::kGoOn) {
    failures_ = 0;
    not_before_ = situation.now;
    NoteLeavers(epoch, record);
    progress_.tell_failed = false;
    hearers_.clear();
    const auto experts =
        std::count_if(proposed.instances.begin(), proposed.instances.end(),
                      [](const TopologyInstance& one) { return one.role == Role::kExperts; });
    tell({EventType::kNormal,
          "Commit",
          {"TopologyCommitted",
           Name(epoch) + " is committed: " +
               std::to_string(proposed.instances.size() - static_cast<size_t>(experts)) +
               " attention and " + std::to_string(experts) + " expert instances"}});
    if (record.spec.committed) NotePlacement(*record.spec.committed, proposed, tell);
  }
  return next;
}

void EpochDriver::NotePlacement(const TopologyRecord& before, const TopologyRecord& after,
                                const TellEvent& tell) {
  const janus::Result<Placement> was = PlacementOf(before), is = PlacementOf(after);
  if (!was.ok() || !is.ok()) return;
  const int64_t moved = CopiesMoved(before, *was, after, *is);
  if (moved == 0 && was->expert_of == is->expert_of) return;
  tell({EventType::kNormal,
        "Place",
        {"PlacementChanged", Name(after.epoch) + " places experts anew: " + std::to_string(moved) +
                                 " copies are on instances that did not have them in " +
                                 Name(before.epoch)}});
}

EpochDriver::Next EpochDriver::Abort(const EpochStep& step, const TopologyRecord& proposed,
                                     Situation& situation, OwnWrites& writes, const TellEvent& tell,
                                     Outcome& outcome) {
  if (aborted_ != step.epoch) {
    // One attempt: a member that does not answer drops it when it hears of a higher epoch.
    if (!Follow(Verb::kAbort, step.epoch, proposed, situation, outcome)) return Next::kWait;
    aborted_ = step.epoch;
  }
  const Next next = Write(
      "abort " + Name(step.epoch), [](Node& spec) { Erase(spec, "proposed"); }, situation, writes,
      outcome);
  if (next == Next::kGoOn) {
    std::string why = step.why;
    for (const TopologyInstance& one : proposed.instances) {
      if (step.gone == IdOf(one)) why = MemberName(one) + " has gone";
    }
    if (!step.gone && progress_.prepare == PrepareState::kFailed) why = message_;
    tell({EventType::kWarning,
          "Abort",
          {"TopologyAborted", Name(step.epoch) + " is given up: " + why}});
  }
  return next;
}

EpochDriver::Next EpochDriver::Tell(int64_t epoch, const TopologyRecord& committed,
                                    Situation& situation, const TellEvent& tell, Outcome& outcome) {
  const bool is_asked = call_ && call_->verb == Verb::kCommit && call_->epoch == epoch;
  if (!is_asked && situation.now < not_before_) {
    BringForward(outcome.again, not_before_);
    return Next::kWait;
  }
  const std::optional<Status> result = Follow(Verb::kCommit, epoch, committed, situation, outcome);
  if (!result) return Next::kWait;
  if (!result->ok()) {
    BackOff(situation.now);
    progress_.tell_failed = true;
    const std::string why = "commit " + Name(epoch) + ": " + result->message();
    if (++tell_failures_ >= kTellTries) Lose(epoch, why, situation.now, tell);
    Say("WorkerUnreachable", why);
    return Next::kGoOn;
  }
  failures_ = 0;
  not_before_ = situation.now;
  Say("", "");
  progress_.told = epoch;
  progress_.tell_failed = false;
  hearers_.clear();
  told_at_ = situation.now;
  BringForward(outcome.again, situation.now + kLookEvery);
  return Next::kGoOn;
}

}  // namespace janus::control
