#include <algorithm>
#include <string>
#include <utility>

#include "common/fingerprint.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/base64.h"
#include "operator/reconcile/certificates/role_secret.h"
#include "operator/reconcile/children/creation.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {
namespace {

// Secrets are never read: one that was deleted or changed behind our back is mended after this.
constexpr std::chrono::hours kAppliedAnew{1};
// How often, at least, what is refused is tried while a certificate lasts.
constexpr int kTriesInALife = 24;

Node SecretOf(const MoEService& service, PeerRole role, const std::string& bundle,
              const KeyPair& pair) {
  Node out = Object({{"apiVersion", Text("v1")}, {"kind", Text("Secret")}});
  SetAt(out, {"type"}, Text("kubernetes.io/tls"));
  SetAt(out, {"metadata", "name"}, Text(TlsSecretName(service.metadata.name, ToString(role))));
  SetAt(out, {"metadata", "namespace"}, Text(service.metadata.namespace_));
  SetAt(out, {"metadata", "labels"}, TextMap(LabelsOf(service, ToString(role))));
  SetAt(out, {"metadata", "ownerReferences"}, ListOf({OwnerReference(service)}));
  SetAt(out, {"data"},
        Object({{"ca.crt", Text(EncodeBase64(bundle))},
                {"tls.crt", Text(EncodeBase64(pair.certificate))},
                {"tls.key", Text(EncodeBase64(pair.key))}}));
  return out;
}

// What a role's Secret holds, and its ca.crt alone.
uint64_t WholeOf(const ServiceCertificates& kept, const IssuedLeaf& leaf) {
  return Fingerprint().Mix(kept.bundle).Mix(leaf.content).value();
}
uint64_t AuthoritiesOf(const ServiceCertificates& kept) {
  return Fingerprint().Mix(kept.bundle).value();
}

}  // namespace

// Of all that may be refused here none is the service's fault, and nothing stops for it: it is
// said, and tried again.
void Reconciler::OnePass::CertificatesRefused(const ApiError& error, const std::string& doing) {
  Refusal refusal = RefusalOf(error, doing);
  if (refusal.kind != RefusalKind::kStop) refusal.kind = RefusalKind::kRetry;
  refusal.cause.reason.clear();
  // Somebody else has written: that is read, and done with, in the next pass.
  const bool is_said = refusal.kind == RefusalKind::kRetry && error.code != StatusCode::kAborted;
  if (is_said) SayUncertified(refusal);
  refused_.push_back(std::move(refusal));
}

void Reconciler::OnePass::SayUncertified(const Refusal& refusal) {
  if (!uncertified_) uncertified_ = {"CertificatesRefused", refusal.cause.message};
}

// Whether every role has had what it should have for so long, for all that this process knows.
bool Reconciler::OnePass::HaveAll(Memory::AppliedSecret::Part Memory::AppliedSecret::*part,
                                  Seconds spread) const {
  for (const PeerRole role : {PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts}) {
    const auto applied = memory_.secrets.find(role);
    if (applied == memory_.secrets.end()) return false;
    const std::optional<MonotonicTime>& since = (applied->second.*part).since;
    if (!since || now_ < At(*since, spread)) return false;
  }
  return true;
}

Reconciler::OnePass::Certified Reconciler::OnePass::KeepCertificates() {
  CertificateKeeper* const keeper = owner_.options_.certificates;
  if (keeper == nullptr) return {};
  if (!UsesTls(service_, owner_.options_.defaults)) {
    keeper->Without(memory_.uid);
    return {};
  }
  const Seconds spread = keeper->lifetimes().spread;
  CertifiedService certified{KeyOf(tree_), memory_.uid, {}};
  certified.circumstances.is_heard = HaveAll(&Memory::AppliedSecret::authorities, spread);
  certified.circumstances.is_shown = HaveAll(&Memory::AppliedSecret::whole, spread);
  const auto asked = service_.metadata.annotations.find(std::string(kRenewalAnnotation));
  if (asked != service_.metadata.annotations.end()) {
    certified.circumstances.renewal = asked->second;
  }
  const ApiResult<ServiceCertificates> kept = keeper->Keep(owner_.api_, certified, wall_, limits_);
  if (!kept.ok()) {
    CertificatesRefused(kept.error(), "keep certificates");
    return GoOnWithWhatIsThere();
  }
  if (kept->refused) CertificatesRefused(*kept->refused, "keep certificates");
  BringForward(again_, At(now_, kept->next - wall_));

  ApplySecrets(*kept);
  for (const auto& [role, applied] : memory_.secrets) {
    for (const auto& since : {applied.authorities.since, applied.whole.since}) {
      if (since && now_ < At(*since, spread)) BringForward(again_, At(*since, spread));
    }
  }
  Certified out = GoOnWithWhatIsThere();
  out.can_call = kept->can_call;
  return out;
}

// Secrets are never read: what of them is valid is what this process has written, and where it has
// not written yet, what pods started with.
Reconciler::OnePass::Certified Reconciler::OnePass::GoOnWithWhatIsThere() {
  Certified out;
  out.can_call = owner_.options_.certificates->ForCalls(memory_.uid).ok();
  std::string waiting;
  std::optional<WallTime> until;
  for (const RolePass& role : roles_) {
    const PeerRole peer = role.role == Role::kAttention ? PeerRole::kAttention : PeerRole::kExperts;
    const auto applied = memory_.secrets.find(peer);
    bool& can_start = out.can_start[role.role == Role::kExperts];
    if (applied != memory_.secrets.end()) {
      can_start = wall_ < applied->second.expires;
      until = std::min(until.value_or(WallTime::max()), applied->second.expires);
    } else {
      can_start = std::any_of(role.pods.begin(), role.pods.end(), [](const PodSeen& pod) {
        return pod.is_live() && pod.containers_ready;
      });
    }
    if (!can_start) waiting += (waiting.empty() ? "" : " and ") + std::string(ToString(role.role));
  }
  if (!uncertified_) return out;
  if (!waiting.empty()) {
    uncertified_.message += "; no valid certificate is there for " + waiting + ", whose pods wait";
  } else if (until) {
    uncertified_.message += "; those that are there are valid until " + FormatTime(*until);
  }
  return out;
}

// Those that are due; their keys are read for it where they were not written just now.
void Reconciler::OnePass::ApplySecrets(const ServiceCertificates& kept) {
  std::vector<PeerRole> due;
  for (const IssuedLeaf& leaf : kept.issued.leaves) {
    if (wall_ < leaf.expires && IsSecretDue(kept, leaf)) due.push_back(leaf.role);
  }
  if (due.empty()) return;
  std::optional<Issued> read;
  if (kept.issued.leaves.front().pair.key.empty()) {
    ApiResult<Issued> pairs = owner_.options_.certificates->Read(owner_.api_, memory_.uid, limits_);
    if (!pairs.ok()) return CertificatesRefused(pairs.error(), "read certificates");
    read = *std::move(pairs);
  }
  const Issued& issued = read ? *read : kept.issued;
  for (const PeerRole role : due) {
    if (const IssuedLeaf* const leaf = issued.Find(role)) ApplySecret(kept, *leaf);
  }
}

bool Reconciler::OnePass::IsSecretDue(const ServiceCertificates& kept, const IssuedLeaf& leaf) {
  const auto known = memory_.secrets.find(leaf.role);
  if (known == memory_.secrets.end()) return true;
  const MonotonicTime due = known->second.at + kAppliedAnew;
  known->second.whole.Want(WholeOf(kept, leaf));
  known->second.authorities.Want(AuthoritiesOf(kept));
  if (!known->second.whole.since || now_ >= due) return true;
  BringForward(again_, due);
  return false;
}

// Whoever else has a Secret of that name keeps it. One of a service that had this name before goes
// soon, and nothing tells when.
void Reconciler::OnePass::ApplySecret(const ServiceCertificates& kept, const IssuedLeaf& leaf) {
  const Node secret = SecretOf(service_, leaf.role, kept.bundle, leaf.pair);
  const std::string name = "Secret " + KeyOf(secret).name;
  const std::string doing = "write " + name;
  if (std::optional<Refusal> refused = memory_.refusals.Standing(doing, now_)) {
    if (refused->cause.reason.empty()) SayUncertified(*refused);
    refused_.push_back(*std::move(refused));
    return;
  }
  const SecretWritten written = WriteSecret(secret, kept.is_first, owner_.api_, limits_);
  if (written.result.ok()) {
    memory_.refusals.Done(doing);
    Memory::AppliedSecret& applied = memory_.secrets[leaf.role];
    applied.whole.Want(WholeOf(kept, leaf));
    applied.authorities.Want(AuthoritiesOf(kept));
    if (!applied.whole.since) applied.whole.since = now_;
    if (!applied.authorities.since) applied.authorities.since = now_;
    applied.at = now_;
    applied.expires = leaf.expires;
    BringForward(again_, now_ + kAppliedAnew);
    return;
  }
  if (!written.is_foreign) {
    const ApiError& error = written.result.error();
    CertificatesRefused(error, doing);
    if (!CanWait(RefusalOf(error, doing))) return;
    const auto longest = std::chrono::duration_cast<std::chrono::seconds>(
        owner_.options_.certificates->lifetimes().leaf / kTriesInALife);
    memory_.refusals.Refused(doing, refused_.back(), now_, std::min(longest, kLongestRefusal));
    return;
  }
  memory_.secrets.erase(leaf.role);
  PassContext context = Context();
  RefuseAdoption(name, "; delete it, or give this MoEService another name", context);
  memory_.refusals.Refused(doing, refused_.back(), now_);
}

}  // namespace janus::control
