#include "operator/manager/gpu_meter.h"

#include <set>
#include <string_view>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pods/pods.h"

namespace janus::control {

int64_t CommittedGpus(const Node& service, const Caches& caches) {
  const ObjectKey key = KeyOf(service);
  const std::string index = key.namespace_ + "/" + key.name;
  const std::string_view owner = UidOf(service);
  std::set<std::string> uids;
  for (const Node& record : caches.topologies.Find(kByService, index)) {
    const Node* const members = FindAt(record, {"spec", "committed", "instances"});
    if (members == nullptr || !IsControlledBy(record, owner)) continue;
    for (const Node& one : members->items) uids.emplace(TextAt(one, {"podUID"}));
  }
  int64_t out = 0;
  for (const Node& pod : caches.pods.Find(kByService, index)) {
    const std::string_view phase = TextAt(pod, {"status", "phase"});
    if (phase == "Failed" || phase == "Succeeded") continue;
    if (uids.contains(std::string(UidOf(pod)))) out += GpusOf(pod);
  }
  return out;
}

void GpuMeter::Set(const ObjectKey& service, const std::string& uid, std::optional<int64_t> gpus,
                   MonotonicTime now) {
  const MutexLock lock(mu_);
  if (!gpus) {
    meters_.erase(service);
    return;
  }
  const auto found = meters_.find(service);
  const bool goes_on = found != meters_.end() && found->second.uid == uid;
  const double before = goes_on ? SecondsOf(found->second, now) : 0;
  meters_[service] = {uid, *gpus, now, before};
}

std::optional<double> GpuMeter::SecondsOf(const ObjectKey& service, const std::string& uid,
                                          MonotonicTime now) const {
  const MutexLock lock(mu_);
  const auto found = meters_.find(service);
  if (found == meters_.end() || found->second.uid != uid) return std::nullopt;
  return SecondsOf(found->second, now);
}

void GpuMeter::Clear() {
  const MutexLock lock(mu_);
  meters_.clear();
}

}  // namespace janus::control
