#include "operator/reconcile/epoch_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "operator/reconcile/names.h"
#include "operator/reconcile/owned.h"
#include "operator/reconcile/trees.h"

namespace janus::control {
namespace {

// Prepare may take as long as it likes, as long as it goes on (architecture.md, Processes).
constexpr std::chrono::seconds kSilence{60};
constexpr std::chrono::seconds kAnswer{10};  // to Commit and Abort
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{60};
// More than one pass ever does: from a raised fence to a proposal whose Prepare is under way.
constexpr int kMostSteps = 12;

std::string Name(int64_t epoch) {
  return "epoch " + std::to_string(epoch);
}

void Earlier(std::optional<MonotonicTime>& time, MonotonicTime other) {
  time = time ? std::min(*time, other) : other;
}

void Erase(Node& map, std::string_view field) {
  std::erase_if(map.fields, [&](const NodeField& one) { return one.name == field; });
}

}  // namespace

void EpochDriver::Say(std::string reason, std::string message) {
  reason_ = std::move(reason);
  message_ = std::move(message);
}

void EpochDriver::BackOff(MonotonicTime now) {
  const auto pause = std::min(kFirstPause * (1 << std::min(failures_, 10)), kLongestPause);
  ++failures_;
  not_before_ = now + pause;
}

EpochDriver::Outcome EpochDriver::Advance(Situation situation, OwnWrites& writes,
                                          const TakeNote& note) {
  Outcome outcome;
  for (int i = 0; i < kMostSteps; ++i) {
    if (!situation.record) {
      if (situation.name.empty() || !situation.wanted) break;
      if (Make(situation, writes, outcome) != Next::kGoOn) break;
    }
    Parsed<MoETopology> parsed = ParseMoETopology(*situation.record);
    if (!parsed.errors.empty()) {
      outcome.trouble = Trouble{TroubleKind::kInvalid,
                                "InvalidTopology",
                                parsed.errors[0].path + " " + parsed.errors[0].message,
                                {}};
      break;
    }
    const MoETopology& record = parsed.object;
    progress_.may_propose = situation.now >= not_before_;
    std::optional<EpochContent> wanted;
    if (situation.wanted) wanted = ContentOf(*situation.wanted);
    const EpochStep step = NextStep(EpochRecordOf(record), progress_, wanted, situation.alive);
    if (step.kind == EpochStepKind::kNothing) {
      if (!progress_.may_propose) {
        outcome.again = not_before_;
      } else {
        Say("", "");
      }
      break;
    }
    if (Act(step, record, situation, writes, note, outcome) != Next::kGoOn) break;
  }
  outcome.record = std::move(situation.record);
  return outcome;
}

EpochDriver::Next EpochDriver::Act(const EpochStep& step, const MoETopology& record,
                                   Situation& situation, OwnWrites& writes, const TakeNote& note,
                                   Outcome& outcome) {
  using Kind = EpochStepKind;
  switch (step.kind) {
    case Kind::kNothing:
      return Next::kStop;
    case Kind::kRaiseFence:
      return RaiseFence(record, situation, writes, outcome);
    case Kind::kTell:
      return Tell(step.epoch, *record.spec.committed, situation, outcome);
    case Kind::kAbort:
      return Abort(step, *record.spec.proposed, situation, writes, note, outcome);
    case Kind::kPropose:
      return Propose(step.epoch, situation, writes, outcome);
    case Kind::kPrepare:
    case Kind::kWait:
      return Prepare(step.epoch, *record.spec.proposed, situation, note, outcome);
    case Kind::kCommit:
      return Commit(step.epoch, record, situation, writes, note, outcome);
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
    outcome.trouble = TroubleOf(made.error(), "create MoETopology " + situation.name);
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
    outcome.trouble = TroubleOf(written.error(), doing);
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
        SetAt(spec, {"proposed"}, RecordTree(topology));
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

std::optional<Status> EpochDriver::Follow(Verb verb, int64_t epoch, const TopologyRecord& of,
                                          Situation& situation, Outcome& outcome) {
  if (!call_ || call_->verb != verb || call_->epoch != epoch) {
    call_.reset();
    MemberOrder order{KeyOf(*situation.record), situation.service.metadata.uid, progress_.fence,
                      epoch, AliveOf(of, situation.alive)};
    order.service.name = situation.service.metadata.name;
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
  Earlier(outcome.again, until);
  return std::nullopt;
}

EpochDriver::Next EpochDriver::Prepare(int64_t epoch, const TopologyRecord& proposed,
                                       Situation& situation, const TakeNote& note,
                                       Outcome& outcome) {
  progress_.prepare = PrepareState::kRunning;
  // Why the last attempt failed is worth more than that there is another one.
  if (failures_ == 0) Say("Preparing", Name(epoch) + " is being prepared");
  const std::optional<Status> result = Follow(Verb::kPrepare, epoch, proposed, situation, outcome);
  if (!result) return Next::kWait;
  if (result->ok()) {
    progress_.prepare = PrepareState::kDone;
    note({EventType::kNormal, "TopologyPrepared", "Prepare", Name(epoch) + " is prepared"});
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

EpochDriver::Next EpochDriver::Commit(int64_t epoch, const MoETopology& record,
                                      Situation& situation, OwnWrites& writes, const TakeNote& note,
                                      Outcome& outcome) {
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
    left_with_ = epoch;
    leavers_ = record.spec.committed ? Without(*record.spec.committed, proposed)
                                     : std::vector<TopologyInstance>();
    const auto experts =
        std::count_if(proposed.instances.begin(), proposed.instances.end(),
                      [](const TopologyInstance& one) { return one.role == Role::kExperts; });
    note({EventType::kNormal, "TopologyCommitted", "Commit",
          Name(epoch) + " is committed: " +
              std::to_string(proposed.instances.size() - static_cast<size_t>(experts)) +
              " attention and " + std::to_string(experts) + " expert instances"});
  }
  return next;
}

EpochDriver::Next EpochDriver::Abort(const EpochStep& step, const TopologyRecord& proposed,
                                     Situation& situation, OwnWrites& writes, const TakeNote& note,
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
    const bool failed = progress_.prepare == PrepareState::kFailed;
    note({EventType::kWarning, "TopologyAborted", "Abort",
          Name(step.epoch) + " is given up: " + (failed ? message_ : step.why)});
  }
  return next;
}

EpochDriver::Next EpochDriver::Tell(int64_t epoch, const TopologyRecord& committed,
                                    Situation& situation, Outcome& outcome) {
  const bool is_asked = call_ && call_->verb == Verb::kCommit && call_->epoch == epoch;
  if (!is_asked && situation.now < not_before_) {
    Earlier(outcome.again, not_before_);
    return Next::kWait;
  }
  const std::optional<Status> result = Follow(Verb::kCommit, epoch, committed, situation, outcome);
  if (!result) return Next::kWait;
  if (!result->ok()) {
    BackOff(situation.now);
    Earlier(outcome.again, not_before_);
    Say("WorkerUnreachable", "commit " + Name(epoch) + ": " + result->message());
    return Next::kWait;
  }
  failures_ = 0;
  not_before_ = situation.now;
  Say("", "");
  progress_.told = epoch;
  return Next::kGoOn;
}

}  // namespace janus::control
