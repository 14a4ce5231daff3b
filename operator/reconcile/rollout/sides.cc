#include "operator/reconcile/rollout/sides.h"

#include <algorithm>
#include <utility>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pods/revision.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {
namespace {

// An unreadable record, or one without a committed epoch, will get the newest one.
int64_t LastCommittedEpoch(const TopologySeen& topology) {
  const auto epoch = IntegerAt(topology.record, {"spec", "committed", "epoch"});
  return epoch.value_or(std::numeric_limits<int64_t>::max());
}

// Divides the pods. The old side gets the pods in its record, and those of its model that are in no
// record.
Sides Divide(const ServiceObserved& seen, const TopologySeen* front, const TopologySeen* old,
             std::vector<const TopologySeen*> spare) {
  Sides out;
  out.front.topology = front;
  out.spare = std::move(spare);
  if (const TopologyRecord* committed = out.front.committed()) {
    out.front.committed_pods = PodsOf(*committed);
  }
  std::set<std::string> old_uids, uids;
  if (old != nullptr) {
    out.old.emplace();
    out.old->topology = old;
    if (const TopologyRecord* committed = out.old->committed()) {
      out.old->committed_pods = PodsOf(*committed);
    }
    old_uids = old->pods;
    if (front != nullptr) uids = front->pods;
    for (const PodSeen& pod : seen.pods) {
      if (old_uids.contains(pod.uid)) out.old_models.insert(pod.model);
    }
    if (const std::optional<MoEService> last = LastServiceOf(seen.tree, old)) {
      out.old_models.insert(ModelLabelOf(*last));
    }
  }
  for (const PodSeen& pod : seen.pods) {
    const bool is_old = old_uids.contains(pod.uid) ||
                        (!uids.contains(pod.uid) && out.old_models.contains(pod.model));
    if (out.front.committed_pods.contains(pod.uid)) out.front_models.insert(pod.model);
    Side& side = is_old ? *out.old : out.front;
    side.pods[pod.role == Role::kExperts].push_back(pod);
  }
  return out;
}

}  // namespace

const TopologyRecord* Side::committed() const {
  return is_readable() && topology->topology->spec.committed ? &*topology->topology->spec.committed
                                                             : nullptr;
}
const TopologyRecord* Side::proposed() const {
  return is_readable() && topology->topology->spec.proposed ? &*topology->topology->spec.proposed
                                                            : nullptr;
}
const TopologyRecord* Side::ended() const {
  return topology != nullptr && topology->ended ? &*topology->ended : nullptr;
}
int64_t Side::last_epoch() const {
  return topology == nullptr ? 0 : IntegerAt(topology->record, {"spec", "lastEpoch"}).value_or(0);
}
const EpochsSeen& Side::epochs() const {
  static const EpochsSeen none;
  return topology == nullptr ? none : topology->epochs;
}
bool Side::has_fence() const {
  return is_readable() && epochs().progress.fence == topology->topology->spec.fence;
}
bool Side::HasTold() const {
  return committed() != nullptr && epochs().HasTold(committed()->epoch);
}
std::vector<PodSeen> Side::AllPods() const {
  std::vector<PodSeen> out = pods[0];
  out.insert(out.end(), pods[1].begin(), pods[1].end());
  return out;
}

Sides TakeSides(const ServiceObserved& seen) {
  std::vector<const TopologySeen*> records;
  for (const TopologySeen& one : seen.topologies) records.push_back(&one);
  std::stable_sort(records.begin(), records.end(),
                   [](const TopologySeen* a, const TopologySeen* b) {
                     return LastCommittedEpoch(*a) < LastCommittedEpoch(*b);
                   });
  const TopologySeen* front = nullptr;
  const TopologySeen* old = nullptr;
  if (!records.empty()) {
    front = records.back();
    records.pop_back();
  }
  if (!records.empty() && FindAt(records.front()->record, {"spec", "committed"}) != nullptr) {
    old = records.front();
    records.erase(records.begin());
  }
  return Divide(seen, front, old, std::move(records));
}

Sides Split(const ServiceObserved& seen, const Sides& sides) {
  return Divide(seen, nullptr, sides.front.topology, sides.spare);
}

bool WantsOldSideAgain(const Sides& sides, const MoEService& service, bool is_invalid) {
  if (!sides.old || is_invalid || !WhyAsleep(service).empty()) return false;
  if (!sides.old_models.contains(ModelLabelOf(service))) return false;
  return sides.front.committed() == nullptr && sides.front.ended() == nullptr;
}

Sides ReturnToOldSide(const ServiceObserved& seen, const Sides& sides) {
  std::vector<const TopologySeen*> spare = sides.spare;
  if (sides.front.topology != nullptr) spare.push_back(sides.front.topology);
  return Divide(seen, sides.old->topology, nullptr, std::move(spare));
}

bool MustAwaitOldSide(const Sides& sides, const MoEService& service, bool is_invalid) {
  return sides.old && !is_invalid && sides.front.committed() != nullptr &&
         !sides.front_models.contains(ModelLabelOf(service));
}

}  // namespace janus::control
