#include "operator/reconcile/reconciler.h"

#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/one_pass.h"

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

Reconciler::Memory& Reconciler::MemoryOf(const ObjectKey& key, const std::string& uid) {
  std::unique_ptr<Memory> old;  // its calls end outside the lock
  const MutexLock lock(mu_);
  std::unique_ptr<Memory>& memory = memories_[key];
  if (memory == nullptr || memory->uid != uid) {
    old = std::exchange(memory, std::make_unique<Memory>(uid, caches_, api_, calls_, planner_));
  }
  return *memory;
}

void Reconciler::Forget(const ObjectKey& key) {
  std::unique_ptr<Memory> old;
  const MutexLock lock(mu_);
  const auto found = memories_.find(key);
  if (found == memories_.end()) return;
  old = std::move(found->second);
  memories_.erase(found);
}

void Reconciler::ForgetAll() {
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

PassResult Reconciler::Pass(const ObjectKey& key, const std::stop_token& stop) {
  std::optional<Node> cached = caches_.services.Get(key);
  if (!cached) {
    Forget(key);
    return {SweepCertificates(stop)};
  }
  Memory& memory = MemoryOf(key, std::string(UidOf(*cached)));
  std::optional<Node> tree = memory.writes.Newest(kMoEServices, key, std::move(cached));
  if (FindAt(*tree, {"metadata", "deletionTimestamp"}) != nullptr) {
    // What it owns goes with it; nothing is made any more.
    Forget(key);
    return {};
  }
  return OnePass(*this, memory, *std::move(tree), stop).Run();
}

}  // namespace janus::control
