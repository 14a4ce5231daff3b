#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {

void Reconciler::OnePass::Tell(const ServiceEvent& event) {
  owner_.record_event_(
      {ReferenceTo(tree_), event.type, event.cause.reason, event.action, event.cause.message});
}

PassResult Reconciler::OnePass::Result() {
  PassResult out;
  for (const Refusal& refusal : refused_) {
    if (CanWait(refusal)) {
      BringForward(again_, now_ + kLongestRefusal);
    } else if (out.status.ok()) {
      out.status = refusal.kind == RefusalKind::kStop ? Cancelled(refusal.cause.message)
                                                      : Unavailable(refusal.cause.message);
    }
    if (refusal.retry_after) BringForward(again_, At(now_, *refusal.retry_after));
  }
  if (const auto next = memory_.refusals.Next(now_)) BringForward(again_, *next);
  if (memory_.moved && wall_ < *memory_.moved + kProgressDeadline) {
    BringForward(again_, At(now_, *memory_.moved + kProgressDeadline - wall_));
  }
  out.again = again_;
  return out;
}

PassResult Reconciler::OnePass::Run() {
  if (!ResolveDoubts()) return Result();
  ReadSpec();
  CheckSpec();
  PinImage();
  ReadWorld();
  Plan();
  const PassContext context = Context();
  const auto is_stopped = [&] { return context.is_stopped(); };
  // Workers that run need them, whatever the spec has become.
  const Certified certified = !acts() && !record_ ? Certified() : KeepCertificates();
  if (acts() && (planned_ || !capacity_) && !is_stopped()) {
    for (RolePass& role : roles_) PlanRole(role);
    WriteAllChildren();
    if (!is_stopped()) MakeAllPods(certified.can_start);
  }
  if (old_record_ && !is_stopped()) KeepOldSide(certified);
  if (!is_stopped() && certified.can_call) AdvanceEpochs();
  if (!is_stopped() && acts()) {
    if (wants_pods()) EndOldEpoch();
    MarkAndRemove();
    if (certified.can_call && !is_stopped()) LetMembersGo();
  }
  for (Node& record : spare_records_) {
    if (!is_stopped() && certified.can_call) DropRecord(std::move(record));
  }
  if (!is_stopped()) KeepLast();
  if (!is_stopped()) WriteStatus();
  return Result();
}

}  // namespace janus::control
