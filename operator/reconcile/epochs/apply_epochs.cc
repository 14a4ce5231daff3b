#include <algorithm>
#include <string>
#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/apply.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/status/status.h"

namespace janus::control {

Applier::EpochTarget Applier::TargetOf(const std::string& topology) {
  const auto seen = std::find_if(seen_.topologies.begin(), seen_.topologies.end(),
                                 [&](const TopologySeen& one) { return one.name() == topology; });
  return {pass_.memory.LineOf(topology).epochs,
          {pass_.key, pass_.memory.uid, seen->record, *seen->topology, seen_.alive, pass_.now,
           pass_.wall},
          {pass_.limits, pass_.memory.writes, pass_.wake, pass_.tell}};
}

// After a write of the record, decide again.
Applier::Result Applier::Written(const Action& action, std::optional<Refusal> refused) {
  if (refused) return Refused(CallOf(action), *std::move(refused));
  return Result::kAnew;
}

Applier::Result Applier::Carry(const MakeTopology& action) {
  const std::string call = CallOf(action);
  ApiResult<Node> made = pass_.api.Create(kTopologies, action.object, {}, pass_.limits);
  if (!made.ok()) {
    if (made.error().outcome_unknown) {
      pass_.memory.writes.MayHaveMade(kTopologies, KeyOf(action.object));
    }
    return Refused(call, RefusalOf(made.error(), call));
  }
  pass_.memory.LineOf(KeyOf(action.object).name).epochs.Made();
  pass_.memory.writes.Wrote(kTopologies, "", *std::move(made), pass_.now);
  return Result::kAnew;
}

Applier::Result Applier::Carry(const RaiseFence& action) {
  const EpochTarget target = TargetOf(action.topology);
  return Written(action, target.driver.RaiseFence(target.record, target.means));
}

Applier::Result Applier::Carry(const ProposeEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  return Written(action,
                 target.driver.Propose(action.epoch, action.proposal, target.record, target.means));
}

Applier::Result Applier::Carry(const PrepareEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  target.driver.Begin(EpochCall::kPrepare, action.epoch, target.record, target.means);
  return Result::kDone;
}

Applier::Result Applier::Carry(const CommitEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  return Written(action, target.driver.Commit(action.epoch, target.record, target.means));
}

Applier::Result Applier::Carry(const TellEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  target.driver.Begin(EpochCall::kCommit, action.epoch, target.record, target.means);
  return Result::kDone;
}

Applier::Result Applier::Carry(const DropEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  target.driver.Begin(EpochCall::kAbort, action.epoch, target.record, target.means);
  return Result::kDone;
}

Applier::Result Applier::Carry(const AbortEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  return Written(action,
                 target.driver.Abort(action.epoch, action.why, target.record, target.means));
}

Applier::Result Applier::Carry(const EndEpoch& action) {
  const EpochTarget target = TargetOf(action.topology);
  return Written(action, target.driver.End(action.epoch, action.why, target.record, target.means));
}

Applier::Result Applier::Carry(const ReleaseMembers& action) {
  Memory::Line& line = pass_.memory.LineOf(action.topology);
  const bool are_released = line.end.Advance(action.order, action.beside, pass_.now,
                                             action.deadline, pass_.wake, pass_.again);
  return are_released ? Result::kAnew : Result::kNothing;
}

Applier::Result Applier::Carry(const UpdateTopology& action) {
  ApiResult<Node> written =
      pass_.api.Update(kTopologies, action.object, action.subresource, {}, pass_.limits);
  const std::string call = CallOf(action);
  if (written.ok()) {
    pass_.memory.writes.Wrote(kTopologies, std::string(ResourceVersionOf(action.object)),
                              *std::move(written), pass_.now);
    return Result::kAnew;
  }
  Refusal refusal = RefusalOf(written.error(), action.doing);
  const bool is_silent = action.is_best_effort && refusal.kind != RefusalKind::kStop;
  pass_.Refuse(call, std::move(refusal), is_silent);
  return Result::kDone;
}

Applier::Result Applier::Carry(const DeleteTopology& action) {
  if (Delete(kTopologies, action.key, action.uid, CallOf(action))) {
    pass_.tell({EventType::kNormal,
                "Delete",
                {"Deleted", "MoETopology " + action.key.name + " is not needed any more"}});
  }
  return Result::kAnew;
}

}  // namespace janus::control
