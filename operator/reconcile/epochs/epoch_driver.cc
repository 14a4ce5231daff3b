#include "operator/reconcile/epochs/epoch_driver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/check.h"
#include "operator/api/rfc3339.h"
#include "operator/reconcile/epochs/member_name.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {
namespace {

// Prepare may take any time while members report progress (docs/design/007). This is the silence
// after which it is given up.
constexpr std::chrono::seconds kSilence{60};
constexpr std::chrono::seconds kAnswer{10};  // to Commit and Abort
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{60};
// After this many failed attempts to tell all members, the epoch counts as lost: a member that has
// since prepared another epoch or restarted can never serve it.
constexpr int kTellTries = 3;
// An epoch that served this long was sound: its loss does not suggest that the next fails too. It
// is longer than a loss can stay unnoticed. A longer time would punish a large service, whose
// members fail more often and for reasons of their own, with pauses in which nothing is computed.
constexpr std::chrono::seconds kSteady{10};
static_assert(kSteady > kLookEvery);

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

void EpochDriver::BackOff(MonotonicTime now) {
  not_before_ = now + PauseAfter(failures_++);
}

EpochsSeen EpochDriver::Seen(MonotonicTime now) const {
  EpochsSeen out;
  out.progress = progress_;
  out.why_lost = why_lost_;
  out.under_way = under_way_;
  out.not_before = not_before_;
  out.dropped = dropped_;
  if (call_) {
    out.call = {
        call_->verb, call_->epoch,
        call_->call->last_heard() + (call_->verb == EpochCall::kPrepare ? kSilence : kAnswer)};
  }
  out.watch = watch_.Seen(now);
  return out;
}

void EpochDriver::NoteHearers(const Record& record) {
  const MoETopologySpec& spec = record.topology.spec;
  const std::optional<TopologyRecord>& committed = spec.committed;
  if (!committed || progress_.told >= committed->epoch || spec.proposed) return;
  if (progress_.fence != spec.fence) return;
  std::set<InstanceId> hearers;
  for (const TopologyInstance& one : AliveOf(*committed, record.alive)) {
    hearers.insert(IdOf(one));
  }
  if (hearers == hearers_) return;
  hearers_ = std::move(hearers);
  tell_failures_ = failures_ = 0;
  not_before_ = record.now;
  progress_.tell_failed = false;
  if (call_ && call_->verb == EpochCall::kCommit) call_.reset();
}

void EpochDriver::Hear(const Record& record, const MemberCalls::Wake& wake, const TellEvent& tell,
                       std::optional<MonotonicTime>& again) {
  Watch(record, wake, tell, again);
  NoteHearers(record);
  HearCall(record, tell, again);
}

void EpochDriver::Watch(const Record& record, const MemberCalls::Wake& wake, const TellEvent& tell,
                        std::optional<MonotonicTime>& again) {
  const std::optional<TopologyRecord>& committed = record.topology.spec.committed;
  if (!committed || progress_.fence != record.topology.spec.fence) return;
  // A member that was not yet told to serve it cannot have lost it.
  if (progress_.told < committed->epoch && !progress_.tell_failed) return;
  const MemberOrder order = OrderTo(committed->epoch, *committed, record);
  if (order.members.empty()) return;
  watch_.Look(order, *committed, record.look_every, record.now, wake, again);
  if (!watch_.why_lost().empty()) Lose(committed->epoch, watch_.why_lost(), record.now, tell);
}

void EpochDriver::Lose(int64_t epoch, const std::string& why, MonotonicTime now,
                       const TellEvent& tell) {
  if (progress_.lost == epoch) return;
  progress_.lost = epoch;
  why_lost_ = Name(epoch) + " is lost: " + why;
  const bool was_sound = progress_.told == epoch && now >= told_at_ + kSteady;
  if (was_sound) losses_ = 0;
  // The first loss is followed at once, and one for which a member that hangs is the cause: the
  // next epoch is without it.
  if (losses_ > 0 && !watch_.HasSilent()) {
    const std::chrono::seconds pause = PauseAfter(losses_);
    not_before_ = std::max(not_before_, now + pause);
    why_lost_ += "; the next epoch begins after a pause of " + std::to_string(pause.count()) +
                 " s, since " + std::to_string(losses_ + 1) +
                 " epochs in a row were lost soon after they began";
  }
  if (!was_sound) ++losses_;
  Say("", "");
  tell({EventType::kWarning, "Watch", {"TopologyLost", why_lost_}});
}

MemberOrder EpochDriver::OrderTo(int64_t epoch, const TopologyRecord& of,
                                 const Record& record) const {
  MemberOrder out{record.service, record.service_uid, progress_.fence, epoch,
                  AliveOf(of, record.alive)};
  out.pool = PoolOf(record.object);
  return out;
}

void EpochDriver::HearCall(const Record& record, const TellEvent& tell,
                           std::optional<MonotonicTime>& again) {
  if (!call_) return;
  const EpochCall verb = call_->verb;
  const int64_t epoch = call_->epoch;
  if (call_->call->done()) {
    const Status result = call_->call->result();
    call_.reset();
    return TakeResult(verb, epoch, result, record.now, tell, again);
  }
  const auto silence = verb == EpochCall::kPrepare ? kSilence : kAnswer;
  if (record.now < call_->call->last_heard() + silence) return;
  const std::string waiting = call_->call->waiting_for();
  call_.reset();
  TakeResult(verb, epoch,
             DeadlineExceeded("no sign of " + (waiting.empty() ? "a member" : waiting) + " for " +
                              std::to_string(silence.count()) + " s"),
             record.now, tell, again);
}

void EpochDriver::TakeResult(EpochCall verb, int64_t epoch, const Status& result, MonotonicTime now,
                             const TellEvent& tell, std::optional<MonotonicTime>& again) {
  switch (verb) {
    case EpochCall::kPrepare:
      return TakePrepared(epoch, result, now, tell);
    case EpochCall::kCommit:
      return TakeTold(epoch, result, now, tell, again);
    case EpochCall::kAbort:
      // One attempt only: a silent member drops it when it learns of a higher epoch.
      dropped_ = epoch;
  }
}

void EpochDriver::TakePrepared(int64_t epoch, const Status& result, MonotonicTime now,
                               const TellEvent& tell) {
  proposal_.reset();
  if (result.ok()) {
    progress_.prepare = PrepareState::kDone;
    tell({EventType::kNormal, "Prepare", {"TopologyPrepared", Name(epoch) + " is prepared"}});
    return;
  }
  progress_.prepare = PrepareState::kFailed;
  BackOff(now);
  Say(result.code() == StatusCode::kUnavailable || result.code() == StatusCode::kDeadlineExceeded
          ? "WorkerUnreachable"
          : "PrepareFailed",
      "prepare " + Name(epoch) + ": " + result.message());
}

void EpochDriver::TakeTold(int64_t epoch, const Status& result, MonotonicTime now,
                           const TellEvent& tell, std::optional<MonotonicTime>& again) {
  if (!result.ok()) {
    BackOff(now);
    progress_.tell_failed = true;
    const std::string why = "commit " + Name(epoch) + ": " + result.message();
    if (++tell_failures_ >= kTellTries) Lose(epoch, why, now, tell);
    Say("WorkerUnreachable", why);
    return;
  }
  failures_ = 0;
  not_before_ = now;
  Say("", "");
  progress_.told = epoch;
  progress_.tell_failed = false;
  hearers_.clear();
  told_at_ = now;
  BringForward(again, now + kLookEvery);
}

void EpochDriver::Made() {
  progress_ = LeaderProgress();
  progress_.fence = 1;
}

std::optional<Refusal> EpochDriver::Write(const std::string& doing,
                                          const std::function<void(Node& spec)>& change,
                                          const Record& record, const Means& means) {
  Node object = record.object;
  const std::string replaced(ResourceVersionOf(object));
  Node spec = *object.Find("spec");
  change(spec);
  SetAt(object, {"spec"}, std::move(spec));
  ApiResult<Node> written = api_.Update(kTopologies, object, Subresource::kNone, {}, means.limits);
  if (!written.ok()) return RefusalOf(written.error(), doing);
  means.writes.Wrote(kTopologies, replaced, *std::move(written), record.now);
  return std::nullopt;
}

std::optional<Refusal> EpochDriver::RaiseFence(const Record& record, const Means& means) {
  call_.reset();
  const int64_t fence = record.topology.spec.fence + 1;
  std::optional<Refusal> refused = Write(
      "raise the fence", [&](Node& spec) { SetAt(spec, {"fence"}, Node::Integer(fence)); }, record,
      means);
  if (refused) return refused;
  progress_ = LeaderProgress();
  progress_.fence = fence;
  hearers_.clear();
  watch_.Forget();
  return std::nullopt;
}

std::optional<Refusal> EpochDriver::Propose(int64_t epoch,
                                            std::shared_ptr<const EpochProposal> proposal,
                                            const Record& record, const Means& means) {
  auto numbered = std::make_shared<EpochProposal>(*proposal);
  numbered->topology.epoch = static_cast<uint64_t>(epoch);
  std::optional<Refusal> refused = Write(
      "propose " + Name(epoch),
      [&](Node& spec) {
        SetAt(spec, {"lastEpoch"}, Node::Integer(epoch));
        Node proposed = RecordTree(numbered->topology);
        proposed.Add("model", Text(numbered->model));
        SetAt(spec, {"proposed"}, std::move(proposed));
      },
      record, means);
  if (refused) return refused;
  progress_.preparing = epoch;
  progress_.prepare = PrepareState::kNone;
  why_placed_ = numbered->why_placed;
  why_mode_ = numbered->why_mode;
  proposal_ = std::move(numbered);
  return std::nullopt;
}

std::optional<Refusal> EpochDriver::End(int64_t epoch, const std::string& why, const Record& record,
                                        const Means& means) {
  call_.reset();
  std::optional<Refusal> refused = Write(
      "end " + Name(epoch),
      [&](Node& spec) {
        SetAt(spec, {"endedEpoch"}, Node::Integer(epoch));
        SetAt(spec, {"endedAt"}, Text(FormatTime(record.wall)));
      },
      record, means);
  if (refused) return refused;
  Say("", "");
  means.tell({EventType::kNormal, "End", {"TopologyEnded", Name(epoch) + " is ended: " + why}});
  return std::nullopt;
}

void EpochDriver::Begin(EpochCall verb, int64_t epoch, const Record& record, const Means& means) {
  call_.reset();
  const MoETopologySpec& spec = record.topology.spec;
  MemberOrder order =
      OrderTo(epoch, verb == EpochCall::kCommit ? *spec.committed : *spec.proposed, record);
  if (verb == EpochCall::kPrepare) {
    JANUS_CHECK(proposal_ != nullptr, "prepare of an epoch that was prepared before", epoch);
    progress_.prepare = PrepareState::kRunning;
    // The reason of the last failure matters more than the next attempt.
    if (failures_ == 0) {
      const bool is_lost = spec.committed && progress_.lost == spec.committed->epoch;
      Say("Preparing", Name(epoch) + " is being prepared" + (is_lost ? "; " + why_lost_ : ""));
    }
  }
  if (order.members.empty()) {  // no member is left to tell
    std::optional<MonotonicTime> again;
    return TakeResult(verb, epoch, OkStatus(), record.now, means.tell, again);
  }
  if (verb == EpochCall::kCommit && epoch == left_with_) order.leavers = leavers_;
  std::unique_ptr<MemberCall> call;
  switch (verb) {
    case EpochCall::kPrepare:
      call = calls_.Prepare(order, proposal_->topology, proposal_->plan, means.wake);
      break;
    case EpochCall::kCommit:
      call = calls_.Commit(order, means.wake);
      break;
    case EpochCall::kAbort:
      call = calls_.Abort(order, means.wake);
      break;
  }
  call_ = Call{verb, epoch, std::move(call)};
}

void EpochDriver::NoteLeavers(int64_t epoch, const MoETopology& topology) {
  std::vector<TopologyInstance> leavers;
  if (const std::optional<TopologyRecord>& before = topology.spec.committed) {
    leavers = Without(*before, *topology.spec.proposed);
    // If not all knew of an epoch, its former members may not know of it either.
    if (left_with_ == before->epoch && progress_.told < before->epoch) {
      TopologyRecord untold;
      untold.instances = std::move(leavers_);
      for (TopologyInstance& one : Without(untold, *topology.spec.proposed)) {
        leavers.push_back(std::move(one));
      }
    }
  }
  left_with_ = epoch;
  leavers_ = std::move(leavers);
}

std::optional<Refusal> EpochDriver::Commit(int64_t epoch, const Record& record,
                                           const Means& means) {
  std::optional<Refusal> refused = Write(
      "commit " + Name(epoch),
      [](Node& spec) {
        SetAt(spec, {"committed"}, *spec.Find("proposed"));
        Erase(spec, "proposed");
      },
      record, means);
  if (refused) return refused;
  const MoETopologySpec& spec = record.topology.spec;
  const TopologyRecord& proposed = *spec.proposed;
  failures_ = 0;
  not_before_ = record.now;
  NoteLeavers(epoch, record.topology);
  progress_.tell_failed = false;
  hearers_.clear();
  const auto experts =
      std::count_if(proposed.instances.begin(), proposed.instances.end(),
                    [](const TopologyInstance& one) { return one.role == Role::kExperts; });
  const size_t attention = proposed.instances.size() - static_cast<size_t>(experts);
  means.tell({EventType::kNormal,
              "Commit",
              {"TopologyCommitted", Name(epoch) + " is committed: " + std::to_string(attention) +
                                        " attention and " + std::to_string(experts) +
                                        " expert instances"}});
  if (spec.committed) {
    TellPlacement(*spec.committed, proposed, means.tell);
    TellMode(*spec.committed, proposed, means.tell);
  }
  return std::nullopt;
}

void EpochDriver::TellPlacement(const TopologyRecord& before, const TopologyRecord& after,
                                const TellEvent& tell) const {
  const janus::Result<Placement> was = PlacementOf(before), is = PlacementOf(after);
  if (!was.ok() || !is.ok()) return;
  const int64_t moved = CopiesMoved(before, *was, after, *is);
  if (moved == 0 && was->expert_of == is->expert_of) return;
  const bool is_known = progress_.preparing == after.epoch && !why_placed_.empty();
  const std::string why = is_known ? "; " + why_placed_ : "";
  tell({EventType::kNormal,
        "Place",
        {"PlacementChanged", Name(after.epoch) + " places experts anew: " + std::to_string(moved) +
                                 " copies are on instances that did not have them in " +
                                 Name(before.epoch) + why}});
}

void EpochDriver::TellMode(const TopologyRecord& before, const TopologyRecord& after,
                           const TellEvent& tell) const {
  if (before.mode == after.mode && before.gate == after.gate) return;
  const bool is_known = progress_.preparing == after.epoch && !why_mode_.empty();
  // The gate's side only where it changes.
  const auto way = [&](const TopologyRecord& one) {
    const std::string mode(janus::ToString(one.mode));
    if (before.gate == after.gate) return mode;
    const bool is_attention = one.gate == janus::GateSide::kAttention;
    return mode + (is_attention ? " with the gate on attention" : " with the gate on experts");
  };
  tell({EventType::kNormal,
        "Choose",
        {"ExchangeModeChanged", Name(after.epoch) + " exchanges in mode " + way(after) + ", " +
                                    Name(before.epoch) + " in " + way(before) +
                                    (is_known ? "; " + why_mode_ : "")}});
}

std::optional<Refusal> EpochDriver::Abort(int64_t epoch, const std::string& why,
                                          const Record& record, const Means& means) {
  std::optional<Refusal> refused = Write(
      "abort " + Name(epoch), [](Node& spec) { Erase(spec, "proposed"); }, record, means);
  if (refused) return refused;
  means.tell(
      {EventType::kWarning, "Abort", {"TopologyAborted", Name(epoch) + " is given up: " + why}});
  return std::nullopt;
}

}  // namespace janus::control
