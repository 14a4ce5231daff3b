#include <set>
#include <string>

#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {

// A worker that is told to end stays until an epoch without it serves, and none comes while the
// service sleeps. So its members are let go: those of attention come to the end of their answers,
// then all leave. Not before all of them are on their way out, whatever the spec says next: nobody
// goes on with one that has been let go.
void Reconciler::OnePass::LetMembersGo() {
  if (wants_pods() || !topology_ || !topology_->spec.committed) {
    memory_.asleep_since.reset();
    return;
  }
  const TopologyRecord& committed = *topology_->spec.committed;
  std::set<std::string> leaving;
  for (const RolePass& role : roles_) {
    for (const PodSeen& pod : role.pods) {
      if (!committed_.contains(pod.uid)) continue;
      if (!pod.is_leaving) return;
      if (!pod.has_ended && !pod.is_lost) leaving.insert(pod.uid);
    }
  }
  // Another leader's epoch: until it has raised the fence for itself its calls would be refused.
  if (leaving.empty() || line_->epochs.fence() != topology_->spec.fence) return;
  if (!memory_.asleep_since) memory_.asleep_since = now_;
  MemberOrder order = OrderTo(committed.epoch, committed.instances);
  std::erase_if(order.members,
                [&](const TopologyInstance& one) { return !leaving.contains(one.pod_uid); });
  Dismiss(order, std::nullopt,
          At(*memory_.asleep_since, Seconds(service_.spec.rollout.drain_seconds)));
}

}  // namespace janus::control
