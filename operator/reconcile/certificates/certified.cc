#include "operator/reconcile/certificates/certified.h"

#include <algorithm>
#include <memory>
#include <string>

#include "operator/api/rfc3339.h"
#include "operator/api/tree.h"
#include "operator/reconcile/certificates/certificate_writer.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/wake_time.h"

namespace janus::control {
namespace {

bool HasCertificates(const ReconcilerOptions& options, const Desired& desired) {
  return options.certificates != nullptr && UsesTls(desired.service, options.defaults);
}

PeerRole PeerOf(Role role) {
  return role == Role::kAttention ? PeerRole::kAttention : PeerRole::kExperts;
}

// True if every role's Secret has had its wanted content for `spread`, as far as this process
// knows.
bool HaveAll(const KeptCertificates& kept, AppliedSecret::Part AppliedSecret::*part,
             MonotonicTime now, Seconds spread) {
  for (const PeerRole role : {PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts}) {
    const auto applied = kept.secrets.find(role);
    if (applied == kept.secrets.end()) return false;
    const std::optional<MonotonicTime>& since = (applied->second.*part).since;
    if (!since || now < At(*since, spread)) return false;
  }
  return true;
}

std::set<PeerRole> RolesThatLackPods(const ServiceObserved& seen, const ReconcilerOptions& options,
                                     const Side& front, const Desired& desired) {
  std::set<PeerRole> out;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const std::vector<PodSeen>& pods = front.pods[role == Role::kExperts];
    const auto ready = std::ranges::count_if(
        pods, [](const PodSeen& pod) { return pod.is_live() && pod.containers_ready; });
    if (ready < desired.Of(role).wanted.all()) out.insert(PeerOf(role));
  }
  const ChildSeen* const gateway =
      seen.Child(kDeployments, GatewayName(desired.service.metadata.name));
  const int wanted =
      desired.service.spec.gateway.replicas.value_or(options.defaults.gateway_replicas);
  if (gateway == nullptr ||
      IntegerAt(gateway->object, {"status", "availableReplicas"}).value_or(0) < wanted) {
    out.insert(PeerRole::kGateway);
  }
  return out;
}

std::optional<MonotonicTime> NextLook(const ServiceObserved& seen, Seconds spread,
                                      const std::set<PeerRole>& lacking) {
  const KeptCertificates& kept = seen.remembered.certificates;
  std::optional<MonotonicTime> out;
  if (kept.next) BringForward(out, At(seen.now, *kept.next - seen.wall));
  for (const auto& [role, applied] : kept.secrets) {
    for (const auto& since : {applied.authorities.since, applied.whole.since}) {
      if (since && seen.now < At(*since, spread)) BringForward(out, At(*since, spread));
    }
    const MonotonicTime anew =
        applied.at + (lacking.contains(role) ? kAppliedForPods : kAppliedAnew);
    if (seen.now < anew) BringForward(out, anew);
  }
  return out;
}

}  // namespace

Certified CertifiedBy(const ServiceObserved& seen, const ReconcilerOptions& options,
                      const Sides& sides, const Desired& desired) {
  Certified out;
  if (!HasCertificates(options, desired)) return out;
  const KeptCertificates& kept = seen.remembered.certificates;
  out.can_call = kept.can_call;
  out.refused = kept.refused;
  out.lacking = RolesThatLackPods(seen, options, sides.front, desired);
  out.again = NextLook(seen, options.certificates->lifetimes().spread, out.lacking);
  std::string waiting;
  std::optional<WallTime> until;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const auto applied = kept.secrets.find(PeerOf(role));
    bool& can_start = out.can_start[role == Role::kExperts];
    if (applied != kept.secrets.end()) {
      can_start = seen.wall < applied->second.expires;
      until = std::min(until.value_or(WallTime::max()), applied->second.expires);
    } else {
      const std::vector<PodSeen>& pods = sides.front.pods[role == Role::kExperts];
      can_start = std::any_of(pods.begin(), pods.end(), [](const PodSeen& pod) {
        return pod.is_live() && pod.containers_ready;
      });
    }
    if (!can_start) waiting += (waiting.empty() ? "" : " and ") + std::string(ToString(role));
  }
  if (!out.refused) return out;
  if (kept.refused_since) out.refused.message += " since " + FormatTime(*kept.refused_since);
  if (!waiting.empty()) {
    out.refused.message += "; no valid certificate is there for " + waiting + ", whose pods wait";
  } else if (until) {
    out.refused.message += "; those that are there are valid until " + FormatTime(*until);
  }
  out.refused.message += "; allow this write: see the webhook, policy, quota or right it names";
  return out;
}

std::optional<KeepCertificates> PlanCertificates(const ServiceObserved& seen,
                                                 const ReconcilerOptions& options,
                                                 const Certified& certified,
                                                 const Desired& desired) {
  if (options.certificates == nullptr || seen.certificates_are_kept) return std::nullopt;
  KeepCertificates out;
  out.uses_tls = UsesTls(desired.service, options.defaults);
  out.service = std::make_shared<const MoEService>(desired.service);
  if (!out.uses_tls) return out;
  out.lacking = certified.lacking;
  const KeptCertificates& kept = seen.remembered.certificates;
  const Seconds spread = options.certificates->lifetimes().spread;
  out.circumstances.is_heard = HaveAll(kept, &AppliedSecret::authorities, seen.now, spread);
  out.circumstances.is_shown = HaveAll(kept, &AppliedSecret::whole, seen.now, spread);
  const auto& annotations = desired.service.metadata.annotations;
  const auto asked = annotations.find(std::string(kRenewalAnnotation));
  if (asked != annotations.end()) out.circumstances.renewal = asked->second;
  return out;
}

}  // namespace janus::control
