#include "operator/reconcile/certificates/certificate_writer.h"

#include <algorithm>
#include <utility>

#include "common/base64.h"
#include "common/fingerprint.h"
#include "operator/reconcile/certificates/role_secret.h"
#include "operator/reconcile/children/adoption.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

// Retries of a refused write during a certificate's lifetime, at least.
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

// Hashes of a role's Secret, and of its ca.crt.
uint64_t WholeOf(const ServiceCertificates& issued, const IssuedLeaf& leaf) {
  return Fingerprint().Mix(issued.bundle).Mix(leaf.content).value();
}
uint64_t AuthoritiesOf(const ServiceCertificates& issued) {
  return Fingerprint().Mix(issued.bundle).value();
}

}  // namespace

void CertificateWriter::Refused(const ApiError& error, const std::string& call) {
  Refusal refusal = RefusalOf(error, call);
  if (refusal.kind != RefusalKind::kStop) refusal.kind = RefusalKind::kRetry;
  refusal.cause.reason.clear();
  // Aborted: another process has written; the next pass reads that.
  const bool is_said = refusal.kind == RefusalKind::kRetry && error.code != StatusCode::kAborted;
  if (is_said) Say(refusal);
  refused_.emplace_back(call, std::move(refusal));
}

void CertificateWriter::Say(const Refusal& refusal) {
  if (!kept_.refused) kept_.refused = {"CertificatesRefused", refusal.cause.message};
  if (!kept_.refused_since) kept_.refused_since = means_.wall;
}

std::vector<std::pair<std::string, Refusal>> CertificateWriter::Run() {
  kept_.is_known = true;
  kept_.refused = {};
  const std::string& uid = service_.metadata.uid;
  if (!action_.uses_tls) {
    means_.keeper.Without(uid);
    kept_.can_call = true;  // plain text
    kept_.next.reset();
    return {};
  }
  const CertifiedService certified{
      {service_.metadata.namespace_, service_.metadata.name}, uid, action_.circumstances};
  const ApiResult<ServiceCertificates> issued =
      means_.keeper.Keep(means_.api, certified, means_.wall, means_.limits);
  if (!issued.ok()) {
    Refused(issued.error(), "keep certificates");
    kept_.next.reset();
    kept_.can_call = means_.keeper.ForCalls(uid).ok();
    return std::move(refused_);
  }
  if (issued->refused) Refused(*issued->refused, "keep certificates");
  kept_.next = issued->next;
  kept_.can_call = issued->can_call;
  ApplySecrets(*issued);
  return std::move(refused_);
}

// Writes the Secrets that are due; reads their keys if they were not just written.
void CertificateWriter::ApplySecrets(const ServiceCertificates& issued) {
  std::vector<PeerRole> due;
  for (const IssuedLeaf& leaf : issued.issued.leaves) {
    if (means_.wall < leaf.expires && IsDue(issued, leaf)) due.push_back(leaf.role);
  }
  if (due.empty()) return;
  std::optional<Issued> read;
  if (issued.issued.leaves.front().pair.key.empty()) {
    ApiResult<Issued> pairs = means_.keeper.Read(means_.api, service_.metadata.uid, means_.limits);
    if (!pairs.ok()) return Refused(pairs.error(), "read certificates");
    read = *std::move(pairs);
  }
  const Issued& leaves = read ? *read : issued.issued;
  for (const PeerRole role : due) {
    if (const IssuedLeaf* const leaf = leaves.Find(role)) Apply(issued, *leaf);
  }
}

bool CertificateWriter::IsDue(const ServiceCertificates& issued, const IssuedLeaf& leaf) {
  const auto known = kept_.secrets.find(leaf.role);
  if (known == kept_.secrets.end()) return true;
  known->second.whole.Want(WholeOf(issued, leaf));
  known->second.authorities.Want(AuthoritiesOf(issued));
  const auto anew = action_.lacking.contains(leaf.role) ? kAppliedForPods : kAppliedAnew;
  return !known->second.whole.since || means_.now >= known->second.at + anew;
}

// A foreign Secret of that name stays. If it belongs to an earlier service of the same name, it
// will be deleted soon, but no event reports that.
void CertificateWriter::Apply(const ServiceCertificates& issued, const IssuedLeaf& leaf) {
  const Node secret = SecretOf(service_, leaf.role, issued.bundle, leaf.pair);
  const std::string name = "Secret " + KeyOf(secret).name;
  const std::string call = "write " + name;
  if (std::optional<Refusal> standing = means_.refusals.Standing(call, means_.now)) {
    if (standing->cause.reason.empty()) Say(*standing);
    refused_.emplace_back(call, *std::move(standing));
    return;
  }
  const SecretWritten written = WriteSecret(secret, issued.is_first, means_.api, means_.limits);
  if (written.result.ok()) {
    means_.refusals.Done(call);
    AppliedSecret& applied = kept_.secrets[leaf.role];
    applied.whole.Want(WholeOf(issued, leaf));
    applied.authorities.Want(AuthoritiesOf(issued));
    if (!applied.whole.since) applied.whole.since = means_.now;
    if (!applied.authorities.since) applied.authorities.since = means_.now;
    applied.at = means_.now;
    applied.expires = leaf.expires;
    return;
  }
  if (!written.is_foreign) {
    const ApiError& error = written.result.error();
    Refused(error, call);
    if (!CanWait(RefusalOf(error, call))) return;
    const auto longest = std::chrono::duration_cast<std::chrono::seconds>(
        means_.keeper.lifetimes().leaf / kTriesInALife);
    means_.refusals.Refused(call, refused_.back().second, means_.now,
                            std::min(longest, kLongestRefusal));
    return;
  }
  kept_.secrets.erase(leaf.role);
  Refusal foreign = BelongsToAnother(name, "; delete it, or give this MoEService another name");
  means_.tell({EventType::kWarning, "Create", foreign.cause});
  means_.refusals.Refused(call, foreign, means_.now);
  refused_.emplace_back(call, std::move(foreign));
}

}  // namespace janus::control
