#include "operator/reconcile/pass/apply.h"

#include <utility>

#include "operator/api/rfc3339.h"
#include "operator/reconcile/certificates/certificate_writer.h"
#include "operator/reconcile/children/adoption.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {

bool Applier::Work(const Plan& plan) {
  bool decides_anew = false;
  for (const Action& action : plan.work) {
    if (pass_.is_stopped()) break;
    const Result result = std::visit([&](const auto& one) { return Carry(one); }, action);
    decides_anew |= result != Result::kNothing;
    if (result == Result::kAnew) break;
  }
  TellMade();
  return decides_anew;
}

void Applier::Report(const Plan& plan) {
  for (const std::string& topology : plan.settled) pass_.memory.LineOf(topology).epochs.Settle();
  for (const ServiceEvent& event : plan.events) pass_.tell(event);
  pass_.memory.remembered = plan.remembered;
  for (const Action& action : plan.report) {
    if (pass_.is_stopped()) return;
    std::visit([&](const auto& one) { return Carry(one); }, action);
  }
}

Applier::Result Applier::Refused(const std::string& call, Refusal refusal, bool stands) {
  refusal.since = pass_.wall;
  if (stands && CanWait(refusal)) {
    refusal = pass_.memory.refusals.Refused(call, std::move(refusal), pass_.now);
  }
  pass_.Refuse(call, std::move(refusal));
  return Result::kDone;
}

Applier::Result Applier::RefuseForeign(const std::string& call, const std::string& what,
                                       const std::string& remedy) {
  Refusal refusal = BelongsToAnother(what, remedy);
  pass_.tell({EventType::kWarning, "Create", refusal.cause});
  return Refused(call, std::move(refusal), true);
}

// One Event names everything created at once.
void Applier::TellMade() {
  const auto tell = [&](const std::string& made) {
    pass_.tell({EventType::kNormal, "Create", {"Created", "made " + made}});
  };
  if (!made_children_.empty()) tell(std::exchange(made_children_, ""));
  for (std::vector<std::string>& made : made_pods_) {
    if (made.size() == 1) tell("Pod " + made.front());
    if (made.size() > 1) {
      tell(std::to_string(made.size()) + " Pods, " + made.front() + " to " + made.back());
    }
    made.clear();
  }
}

Applier::Making Applier::Make(const std::string& call, const Resource& resource,
                              const Node& object) {
  const ObjectKey key = KeyOf(object);
  ApiResult<Node> created = pass_.api.Create(resource, object, {}, pass_.limits);
  if (created.ok()) {
    pass_.memory.refusals.Done(call);
    pass_.memory.writes.Wrote(resource, "", *std::move(created), pass_.now);
    return {Made::kMade, {}};
  }
  if (created.error().code != StatusCode::kAlreadyExists) {
    if (created.error().outcome_unknown) pass_.memory.writes.MayHaveMade(resource, key);
    Refused(call, RefusalOf(created.error(), call), true);
    return {};
  }
  ApiResult<Node> there = pass_.api.Get(resource, key, Subresource::kNone, pass_.limits);
  if (!there.ok()) {
    Refused(call, RefusalOf(there.error(), "read " + resource.kind + " " + key.name));
    return {};
  }
  const Made made = IsControlledBy(*there, pass_.memory.uid) ? Made::kOurs : Made::kForeign;
  return {made, *std::move(there)};
}

bool Applier::Delete(const Resource& resource, const ObjectKey& key, const std::string& uid,
                     const std::string& call) {
  DeleteOptions options;
  options.uid = uid;
  const ApiResult<Node> gone = pass_.api.Delete(resource, key, options, pass_.limits);
  // The cache shows an object that is gone: read again until it no longer does.
  if (!gone.ok()) {
    Refused(call, RefusalOf(gone.error(), call));
    return false;
  }
  pass_.memory.writes.Deleted(uid);
  return true;
}

Applier::Result Applier::Carry(const KeepCertificates& action) {
  KeptCertificates& kept = pass_.memory.remembered.certificates;
  const KeptCertificates before = kept;
  const CertificateWriter::Means means{
      pass_.api,  *pass_.options.certificates, pass_.limits, pass_.now,
      pass_.wall, pass_.memory.refusals,       pass_.tell};
  auto refused = CertificateWriter(means, action, kept).Run();
  pass_.certificates_are_kept = true;
  if (!kept.refused) kept.refused_since.reset();
  const bool is_same = refused.empty() && kept == before;
  for (auto& [call, refusal] : refused) pass_.Refuse(call, std::move(refusal));
  return is_same ? Result::kNothing : Result::kAnew;
}

Applier::Result Applier::Carry(const AskWorkers& action) {
  WorkersToAsk workers = action.workers;
  workers.wake = pass_.wake;
  const std::string key = action.is_old_side ? OldPlannerKey(pass_.memory.uid) : pass_.memory.uid;
  return pass_.memory.planner.Ask(key, workers) ? Result::kAnew : Result::kNothing;
}

Applier::Result Applier::Carry(const TakeDecision& action) {
  pass_.memory.remembered.scaling = action.scaling;
  RecordBook* const records = pass_.options.records;
  if (records == nullptr) return Result::kAnew;
  if (action.record) {
    records->Add(pass_.key, pass_.memory.uid, *action.record, action.emulated);
  } else if (action.scaling.hold) {
    records->AddHold(pass_.key, pass_.memory.uid, *action.scaling.hold, action.emulated);
  } else {
    records->EndHold(pass_.key);
  }
  return Result::kAnew;
}

Applier::Result Applier::Carry(const TakePlacement& action) {
  Remembered& remembered = pass_.memory.remembered;
  (action.pool == 1 ? remembered.placement : remembered.pools[action.pool].placement) =
      action.placement;
  if (pass_.options.records != nullptr && action.pool == 1) {
    pass_.options.records->Add(pass_.key, pass_.memory.uid, action.record);
  }
  return Result::kAnew;
}

Applier::Result Applier::Carry(const RecordFetch& action) {
  ApiResult<Node> written =
      pass_.api.Update(kMoEServices, action.next, Subresource::kStatus, {}, pass_.limits);
  if (!written.ok()) return Refused(CallOf(action), RefusalOf(written.error(), CallOf(action)));
  pass_.memory.writes.Wrote(kMoEServices, std::string(ResourceVersionOf(action.next)),
                            *std::move(written), pass_.now);
  pass_.tell({EventType::kNormal, "Fetch", {"ModelFetched", action.what}});
  return Result::kAnew;
}

Applier::Result Applier::Carry(const WriteScalerStatus& action) {
  ApiResult<Node> written =
      pass_.api.Update(kRoleScalers, action.next, Subresource::kStatus, {}, pass_.limits);
  const std::string call = CallOf(action);
  if (!written.ok()) {
    Refusal refusal = RefusalOf(written.error(), call);
    // If conditions cannot be written, none can report it, so it becomes an error of the operator.
    if (refusal.kind != RefusalKind::kStop) refusal.kind = RefusalKind::kRetry;
    refusal.cause.reason.clear();
    return Refused(call, std::move(refusal));
  }
  pass_.memory.remembered.scaler_numbers_written[action.role == Role::kExperts] = pass_.now;
  pass_.memory.writes.Wrote(kRoleScalers, std::string(ResourceVersionOf(action.next)),
                            *std::move(written), pass_.now);
  return Result::kDone;
}

Applier::Result Applier::Carry(const WriteStatus& action) {
  ApiResult<Node> written =
      pass_.api.Update(kMoEServices, action.next, Subresource::kStatus, {}, pass_.limits);
  const std::string call = CallOf(action);
  if (!written.ok()) {
    Refusal refusal = RefusalOf(written.error(), call);
    if (refusal.kind != RefusalKind::kStop) refusal.kind = RefusalKind::kRetry;
    refusal.cause.reason.clear();
    return Refused(call, std::move(refusal));
  }
  pass_.memory.remembered.numbers_written = pass_.now;
  for (const ServiceEvent& event : action.events) pass_.tell(event);
  pass_.memory.writes.Wrote(kMoEServices, std::string(ResourceVersionOf(action.next)),
                            *std::move(written), pass_.now);
  return Result::kDone;
}

Applier::Result Applier::Carry(const TellNamespace& action) {
  const Node condition =
      Object({{"type", Text("serving.janus.dev/PodsGone")},
              {"status", Text("True")},
              {"lastTransitionTime", Text(FormatTime(pass_.wall))},
              {"reason", Text("Drained")},
              {"message", Text("no pod of MoEService " + action.service + " is left")}});
  const Node status = Object({{"apiVersion", Text("v1")},
                              {"kind", Text(kNamespaces.kind)},
                              {"metadata", Object({{"name", Text(action.ns)}})},
                              {"status", Object({{"conditions", ListOf({condition})}})}});
  const ApiResult<Node> told =
      pass_.api.Apply(kNamespaces, status, Subresource::kStatus, {}, pass_.limits);
  if (!told.ok()) pass_.Refuse(CallOf(action), RefusalOf(told.error(), CallOf(action)), true);
  return Result::kDone;
}

}  // namespace janus::control
