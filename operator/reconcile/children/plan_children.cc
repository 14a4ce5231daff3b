#include "operator/reconcile/children/plan_children.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/pools.h"
#include "operator/reconcile/children/adoption.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {
namespace {

void Count(const TopologyRecord* committed, CommittedPods& out) {
  if (committed == nullptr) return;
  std::set<std::string> pods;
  for (const TopologyInstance& one : committed->instances) {
    if (!pods.insert(one.pod_uid).second) continue;
    ++(one.role == Role::kAttention ? out.attention : out.experts);
  }
}

// Gateways turn tokens into text, so they need the model of the serving workers until new ones
// serve.
MoEService GatewaysService(const ServiceObserved& seen, const Sides& sides,
                           const Desired& desired) {
  MoEService out = desired.service;
  const auto take_source = [&](const TopologySeen* topology) {
    if (std::optional<MoEService> last = LastServiceOf(seen.tree, topology)) {
      out.spec.model.source = std::move(last->spec.model.source);
      out.spec.model.cache = std::move(last->spec.model.cache);
      out.commit = std::move(last->commit);
    }
  };
  if (sides.old && sides.old->committed() != nullptr) {
    take_source(sides.old->topology);
    return out;
  }
  const Side& front = sides.front;
  if (front.committed() == nullptr && front.ended() == nullptr) return out;
  const std::string& revision = desired.Of(Role::kAttention).wanted.revision;
  const bool serves =
      std::any_of(front.pods[0].begin(), front.pods[0].end(), [&](const PodSeen& pod) {
        return front.committed_pods.contains(pod.uid) && pod.revision == revision;
      });
  if (!serves) take_source(front.topology);
  return out;
}

void PlanChild(const ServiceObserved& seen, const MoEService& service, const Child& child,
               PlanBuilder& out) {
  const std::string name = KeyOf(child.object).name;
  const std::string what = child.resource->kind + " " + name;
  const ChildSeen* const there = seen.Child(*child.resource, name);
  if (there == nullptr) {
    out.Add(MakeChild{child.resource, child.first ? *child.first : child.object});
    return;
  }
  switch (Judge(service, there->object, child.object)) {
    case Standing::kAsWanted:
    case Standing::kLeaving:
      return;
    case Standing::kForeign:
      out.Add(
          RefuseAdoption{"adopt " + what, what, AdoptionRemedy(there->object, seen.key().name)});
      return;
    case Standing::kDrifted:
      break;
  }
  const FieldPath hash = {"metadata", "annotations", kWantedAnnotation};
  const auto mended = seen.remembered.mended.find({child.resource->plural, name});
  const bool is_mended = mended != seen.remembered.mended.end() &&
                         mended->second == ResourceVersionOf(there->object) &&
                         TextAt(there->object, hash) == TextAt(child.object, hash);
  if (!is_mended) out.Add(ApplyChild{child, there->object});
}

// `names`: all names that objects of `resource` may have.
void PlanDeletions(const ServiceObserved& seen, const Resource& resource,
                   const std::vector<std::string>& names, const char* why,
                   const std::vector<Child>& wanted, PlanBuilder& out) {
  std::set<std::string> kept;
  for (const Child& child : wanted) {
    if (child.resource == &resource) kept.insert(KeyOf(child.object).name);
  }
  for (const std::string& name : names) {
    if (kept.contains(name)) continue;
    const ChildSeen* const there = seen.Child(resource, name);
    if (there == nullptr || there->is_deleted || !IsControlledBy(there->object, seen.uid())) {
      continue;
    }
    out.Add(DeleteChild{
        &resource, {seen.key().namespace_, name}, std::string(UidOf(there->object)), why});
  }
}

// From pool `first` on.
std::vector<std::string> PoolNames(const std::string& service, int first) {
  std::vector<std::string> out;
  for (int pool = first; pool <= kMostPools; ++pool) out.push_back(PoolName(service, pool));
  return out;
}

}  // namespace

CommittedPods CommittedPodsOf(const Sides& sides) {
  CommittedPods out;
  Count(sides.front.committed(), out);
  if (sides.old) Count(sides.old->committed(), out);
  return out;
}

std::vector<Child> WantedChildren(const ServiceObserved& seen, const ReconcilerOptions& options,
                                  const Sides& sides, const Desired& desired,
                                  const OtherPools& others) {
  CommittedPods committed;
  if (desired.wants_pods()) committed = CommittedPodsOf(sides) + others.committed;
  LeavingGateways leaving;
  if (options.reads_nodes && options.ground == Ground::kCluster) {
    leaving = static_cast<int>(
        std::count_if(seen.gateway_pods.begin(), seen.gateway_pods.end(),
                      [](const GatewayPodSeen& pod) { return pod.must_leave && !pod.is_leaving; }));
  }
  std::vector<Child> out =
      ChildrenOf(GatewaysService(seen, sides, desired), options.defaults, committed, leaving,
                 UsesPools(desired.service.spec) ? others.highest : 0);
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (!IsExternal(SpecOf(desired.service, role))) continue;
    out.push_back(ScalerOf(desired.service, role, desired.Of(role).external_count));
  }
  return out;
}

void PlanChildren(const ServiceObserved& seen, const MoEService& service,
                  const std::vector<Child>& wanted, int highest_pool, PlanBuilder& out) {
  for (const Child& child : wanted) PlanChild(seen, service, child, out);
  const std::string name = service.metadata.name;
  const std::vector<std::string> of_roles = {RoleObjectName(name, Role::kAttention),
                                             RoleObjectName(name, Role::kExperts)};
  PlanDeletions(seen, kDisruptionBudgets, of_roles, "the role has no members", wanted, out);
  PlanDeletions(seen, kRoleScalers, of_roles, "the role is in mode External no more", wanted, out);
  PlanDeletions(seen, kNetworkPolicies, {WorkersPolicyName(name), GatewayName(name)},
                "security.networkPolicy asks for none", wanted, out);
  PlanDeletions(seen, kServices, PoolNames(name, highest_pool + 1), "the pool has gone", wanted,
                out);
}

void PlanOwnChild(const ServiceObserved& seen, const MoEService& service, const Child& child,
                  PlanBuilder& out) {
  PlanChild(seen, service, child, out);
}

std::vector<std::pair<const Resource*, std::string>> ChildNames(const std::string& service) {
  const std::string attention = RoleObjectName(service, Role::kAttention);
  const std::string experts = RoleObjectName(service, Role::kExperts);
  std::vector<std::pair<const Resource*, std::string>> out = {
      {&kDeployments, GatewayName(service)},
      {&kDisruptionBudgets, GatewayName(service)},
      {&kServices, service},
      {&kServices, MembersName(service)},
      {&kServiceAccounts, WorkerAccountName(service)},
      {&kDisruptionBudgets, attention},
      {&kDisruptionBudgets, experts},
      {&kRoleScalers, attention},
      {&kRoleScalers, experts},
      {&kNetworkPolicies, WorkersPolicyName(service)},
      {&kNetworkPolicies, GatewayName(service)},
      {&kNetworkPolicies, FetchPolicyName(service)}};
  for (std::string& pool : PoolNames(service, 1)) {
    out.emplace_back(&kServices, std::move(pool));
  }
  return out;
}

}  // namespace janus::control
