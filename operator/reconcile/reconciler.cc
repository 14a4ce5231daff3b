#include "operator/reconcile/reconciler.h"

#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/apply.h"
#include "operator/reconcile/pass/decide.h"
#include "operator/reconcile/pass/memory.h"
#include "operator/reconcile/pass/observe.h"
#include "operator/reconcile/pass/pass.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {

Reconciler::Reconciler(ObjectApi& api, const Caches& caches, ServicePlanner& planner,
                       MemberCalls& calls, const Clock& clock, RecordEvent record_event,
                       WakeKey wake, ReconcilerOptions options)
    : api_(api),
      caches_(caches),
      planner_(planner),
      calls_(calls),
      clock_(clock),
      record_event_(std::move(record_event)),
      wake_(std::move(wake)),
      options_(std::move(options)) {}

Reconciler::~Reconciler() = default;

Memory& Reconciler::MemoryOf(const ObjectKey& key, const std::string& uid) {
  std::unique_ptr<Memory> old;  // its calls end without the lock
  const MutexLock lock(mu_);
  std::unique_ptr<Memory>& memory = memories_[key];
  if (memory == nullptr || memory->uid != uid) {
    old = std::exchange(memory, std::make_unique<Memory>(uid, caches_, api_, calls_, planner_));
  }
  return *memory;
}

void Reconciler::Forget(const ObjectKey& key) {
  if (options_.records != nullptr) options_.records->Forget(key);
  std::unique_ptr<Memory> old;
  const MutexLock lock(mu_);
  const auto found = memories_.find(key);
  if (found == memories_.end()) return;
  old = std::move(found->second);
  memories_.erase(found);
}

void Reconciler::ForgetAll() {
  if (options_.records != nullptr) options_.records->ForgetAll();
  if (options_.certificates != nullptr) options_.certificates->ForgetAll();
  std::map<ObjectKey, std::unique_ptr<Memory>> old;
  const MutexLock lock(mu_);
  old.swap(memories_);
}

Status Reconciler::SweepCertificates(const std::stop_token& stop) {
  if (options_.certificates == nullptr) return OkStatus();
  const auto is_there = [this](const CertifiedService& service) {
    const std::optional<Node> cached = caches_.services.Get(service.key);
    return cached && UidOf(*cached) == service.uid;
  };
  const Status swept =
      options_.certificates->Sweep(api_, is_there, {options_.call_timeout, stop}).status();
  if (swept.ok() || stop.stop_requested()) return OkStatus();
  return swept.Annotate("delete authorities of services that are no more");
}

control::Pass Reconciler::PassOver(const ObjectKey& key, Memory& memory, const Node& tree,
                                   const std::stop_token& stop) {
  control::Pass pass{options_,
                     api_,
                     caches_,
                     memory,
                     key,
                     clock_.Now(),
                     clock_.WallNow(),
                     {options_.call_timeout, stop},
                     {},
                     {},
                     {},
                     {},
                     false,
                     true,
                     {}};
  pass.tell = [this, about = ReferenceTo(tree)](const ServiceEvent& event) {
    record_event_({about, event.type, event.cause.reason, event.action, event.cause.message});
  };
  pass.wake = [wake = wake_, key] { wake(key); };
  return pass;
}

std::optional<ServiceObserved> Reconciler::Look(const ObjectKey& key) {
  const std::optional<Node> cached = caches_.services.Get(key);
  if (!cached) return std::nullopt;
  Memory& memory = MemoryOf(key, std::string(UidOf(*cached)));
  control::Pass pass = PassOver(key, memory, *cached, {});
  return Observe(pass);
}

namespace {

// More than any pass needs: from certificates, children and pods over a raised fence to a proposed
// epoch in Prepare.
constexpr int kMostRounds = 32;

// The error, if the pass must be retried, and the time of the next pass.
PassResult ResultOf(const Pass& pass, const Plan& plan) {
  PassResult out;
  out.again = plan.again;
  const auto take = [&](const Refusal& refusal) {
    if (CanWait(refusal)) {
      BringForward(out.again, pass.now + kLongestRefusal);
    } else if (out.status.ok()) {
      out.status = refusal.kind == RefusalKind::kStop ? Cancelled(refusal.cause.message)
                                                      : Unavailable(refusal.cause.message);
    }
    if (refusal.retry_after) BringForward(out.again, At(pass.now, *refusal.retry_after));
  };
  for (const RefusedCall& one : pass.refused) {
    if (!one.is_silent) take(one.refusal);
  }
  for (const Refusal& one : plan.refused) take(one);
  if (pass.again) BringForward(out.again, *pass.again);
  if (const auto next = pass.memory.refusals.Next(pass.now)) BringForward(out.again, *next);
  return out;
}

// False: another release keeps the service, or the claim cannot be written.
bool IsOurs(Pass& pass, const Node& service, Plan& plan) {
  const ClaimDecision decision =
      DecideClaim(service, pass.options.release, pass.now, pass.memory.claim);
  if (decision.event) pass.tell(*decision.event);
  plan.again = decision.again;
  if (!decision.write) return decision.is_ours;
  ApiResult<Node> written =
      pass.api.Update(kMoEServices, *decision.write, Subresource::kStatus, {}, pass.limits);
  if (!written.ok()) {
    const std::string call = "claim MoEService " + pass.key.name;
    pass.Refuse(call, RefusalOf(written.error(), call));
    return false;
  }
  pass.memory.writes.Wrote(kMoEServices, std::string(ResourceVersionOf(service)),
                           *std::move(written), pass.now);
  return decision.is_ours;
}

PassResult Run(Pass& pass, const Node& service) {
  Plan plan;
  if (!IsOurs(pass, service, plan)) return ResultOf(pass, plan);
  for (int round = 0; round < kMostRounds; ++round) {
    pass.is_first_round = round == 0;
    pass.again.reset();
    const std::optional<ServiceObserved> seen = Observe(pass);
    if (!seen) break;
    plan = Decide(*seen, pass.options);
    Applier applier(pass, *seen);
    const bool decides_anew = applier.Work(plan);
    if (pass.is_stopped()) break;
    if (decides_anew && round + 1 < kMostRounds) continue;
    applier.Report(plan);
    if (decides_anew) BringForward(pass.again, pass.now);
    break;
  }
  return ResultOf(pass, plan);
}

}  // namespace

PassResult Reconciler::Pass(const ObjectKey& key, const std::stop_token& stop) {
  const std::optional<Node> cached = caches_.services.Get(key);
  if (!cached) {
    Forget(key);
    return {SweepCertificates(stop)};
  }
  Memory& memory = MemoryOf(key, std::string(UidOf(*cached)));
  const std::optional<Node> tree = memory.writes.Newest(kMoEServices, key, *cached);
  if (FindAt(*tree, {"metadata", "deletionTimestamp"}) != nullptr) {
    // The API server deletes what it owns; create nothing more.
    Forget(key);
    return {};
  }
  control::Pass pass = PassOver(key, memory, *tree, stop);
  return Run(pass, *tree);
}

}  // namespace janus::control
