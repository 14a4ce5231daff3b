#include <algorithm>
#include <string>
#include <utility>

#include "common/fingerprint.h"
#include "operator/kube/base64.h"
#include "operator/reconcile/names.h"
#include "operator/reconcile/one_pass.h"
#include "operator/reconcile/owned.h"
#include "operator/reconcile/trees.h"

namespace janus::control {
namespace {

// Secrets are never read: one that was deleted or changed behind our back is mended after this.
constexpr std::chrono::hours kAppliedAnew{1};

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

}  // namespace

Reconciler::OnePass::Certified Reconciler::OnePass::KeepCertificates() {
  CertificateKeeper* const keeper = owner_.options_.certificates;
  if (keeper == nullptr) return {};
  if (!UsesTls(service_, owner_.options_.defaults)) {
    keeper->Without(memory_.uid);
    return {};
  }
  const ApiResult<ServiceCertificates> kept =
      keeper->Keep(owner_.api_, {KeyOf(tree_), memory_.uid}, wall_, limits_);
  if (!kept.ok()) {
    troubles_.push_back(TroubleOf(kept.error(), "keep certificates"));
    return {false, false};
  }
  Earlier(again_, At(now_, kept->next - wall_));
  Certified out;
  for (const IssuedLeaf& leaf : kept->issued.leaves) {
    out.can_start = ApplySecret(*kept, leaf) && out.can_start;
  }
  return out;
}

// Without force: whoever else has a Secret of that name keeps it, as the server tells us by a
// conflict over its fields.
bool Reconciler::OnePass::ApplySecret(const ServiceCertificates& kept, const IssuedLeaf& leaf) {
  const uint64_t content = Fingerprint().Mix(kept.bundle).Mix(leaf.pair.certificate).value();
  Memory::AppliedSecret& applied = memory_.secrets[leaf.role];
  const MonotonicTime due = applied.at + kAppliedAnew;
  if (applied.content == content && now_ < due) {
    Earlier(again_, due);
    return true;
  }
  const Node secret = SecretOf(service_, leaf.role, kept.bundle, leaf.pair);
  const std::string name = "Secret " + KeyOf(secret).name;
  ApplyOptions options;
  options.force = false;
  const ApiResult<Node> written =
      owner_.api_.Apply(kSecrets, secret, Subresource::kNone, options, limits_);
  if (written.ok()) {
    applied = {content, now_};
    Earlier(again_, now_ + kAppliedAnew);
    return true;
  }
  Trouble trouble = TroubleOf(written.error(), "apply " + name);
  const StatusCode code = written.error().code;
  if (code == StatusCode::kAborted || code == StatusCode::kInvalidArgument) {
    trouble.kind = TroubleKind::kRetry;
    trouble.reason = "AdoptRefused";
    trouble.message = name +
                      " belongs to somebody else, or was changed by hand, and is left as it "
                      "is; delete it, or rename this MoEService: " +
                      written.error().message;
    Tell({EventType::kWarning, "AdoptRefused", "Apply", trouble.message});
  }
  troubles_.push_back(std::move(trouble));
  return false;
}

}  // namespace janus::control
