#include "operator/reconcile/epochs/next_step.h"

#include <algorithm>

namespace janus::control {
namespace {

const InstanceId* FirstMissing(const EpochContent& content, const std::set<InstanceId>& alive) {
  for (const InstanceId& member : content.members) {
    if (!alive.contains(member)) return &member;
  }
  return nullptr;
}

// Empty: the committed epoch is the wanted one, and it serves.
std::string WhyAnother(const EpochRecord& record, const LeaderProgress& progress,
                       const std::optional<EpochContent>& wanted) {
  if (!wanted) return "";
  if (!record.committed) return "there is none yet";
  if (record.committed->content != *wanted) return "other members or settings are wanted";
  if (progress.lost == record.committed->epoch) return "what is committed is lost";
  return "";
}

}  // namespace

EpochStep NextStep(const EpochRecord& record, const LeaderProgress& progress,
                   const std::optional<EpochContent>& wanted, const std::set<InstanceId>& alive) {
  using Kind = EpochStepKind;
  if (progress.fence == 0 || progress.fence != record.fence) {
    return {Kind::kRaiseFence, 0, "a new leader"};
  }
  if (progress.ends && record.proposed) {
    return {Kind::kAbort, record.proposed->epoch, "it is not wanted any more"};
  }
  if (progress.ends && record.committed) {
    return {Kind::kEnd, record.committed->epoch, "another model is wanted"};
  }
  // First of all: members may have prepared it and be waiting for this message.
  const bool is_told = !record.committed || progress.told >= record.committed->epoch;
  if (!is_told && !progress.tell_failed) {
    return {Kind::kTell, record.committed->epoch, "it is committed"};
  }
  if (record.proposed) {
    const RecordedEpoch& proposed = *record.proposed;
    if (progress.preparing != proposed.epoch) {
      return {Kind::kAbort, proposed.epoch, "another leader has proposed it"};
    }
    if (proposed.epoch <= progress.above) {
      return {Kind::kAbort, proposed.epoch, "the model that serves has a newer epoch"};
    }
    if (const InstanceId* gone = FirstMissing(proposed.content, alive)) {
      return {Kind::kAbort, proposed.epoch, "a member has gone", *gone};
    }
    switch (progress.prepare) {
      case PrepareState::kNone:
        return {Kind::kPrepare, proposed.epoch, "it is proposed"};
      case PrepareState::kRunning:
        return {Kind::kWait, proposed.epoch, "members prepare"};
      case PrepareState::kFailed:
        return {Kind::kAbort, proposed.epoch, "a member could not prepare"};
      case PrepareState::kDone:
        return {Kind::kCommit, proposed.epoch, "every member has prepared"};
    }
  }
  const std::string why = WhyAnother(record, progress, wanted);
  // A missing member will be observed again soon.
  if (!why.empty() && progress.may_propose && FirstMissing(*wanted, alive) == nullptr) {
    return {Kind::kPropose, std::max(record.last_epoch, progress.above) + 1, why};
  }
  if (!is_told) return {Kind::kTell, record.committed->epoch, "not all have heard of it"};
  return {};
}

}  // namespace janus::control
