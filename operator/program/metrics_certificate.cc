#include "operator/program/metrics_certificate.h"

#include <chrono>
#include <utility>

#include "common/read_file.h"
#include "operator/certificates/issuer.h"
#include "rpc/credentials/certificate.h"

namespace janus::control {
namespace {

// No reader verifies it, so it is only a name to recognise.
constexpr const char* kOwnName = "spiffe://janus-operator/metrics";
constexpr auto kMakeEvery = std::chrono::hours(24 * 30);
constexpr auto kLifetime = 3 * kMakeEvery;
// For readers whose clock is late.
constexpr auto kEarlier = std::chrono::hours(1);

}  // namespace

std::shared_ptr<const PageCertificate> MetricsCertificate::Now() {
  if (Status status = folder_.empty() ? Make() : Read(); !status.ok()) {
    log_.Error("no new certificate for the metrics port", {{"reason", status.message()}});
  }
  return now_;
}

Status MetricsCertificate::Read() {
  JANUS_ASSIGN_OR_RETURN(std::string chain, ReadFile(folder_ + "/tls.crt"));
  JANUS_ASSIGN_OR_RETURN(std::string key, ReadFile(folder_ + "/tls.key"));
  if (now_ != nullptr && now_->chain == chain && now_->key == key) return OkStatus();
  JANUS_RETURN_IF_ERROR(CheckKeyPair(chain, key));
  now_ = std::make_shared<const PageCertificate>(PageCertificate{std::move(chain), std::move(key)});
  return OkStatus();
}

Status MetricsCertificate::Make() {
  const WallTime now = timeline_.WallNow();
  if (made_ && now < *made_ + kMakeEvery) return OkStatus();
  const Validity validity{now - kEarlier, now + kLifetime};
  JANUS_ASSIGN_OR_RETURN(const KeyPair authority, MakeAuthority(kOwnName, validity));
  JANUS_ASSIGN_OR_RETURN(KeyPair leaf, IssueLeaf(authority, kOwnName, validity));
  now_ = std::make_shared<const PageCertificate>(
      PageCertificate{std::move(leaf.certificate), std::move(leaf.key)});
  made_ = now;
  return OkStatus();
}

}  // namespace janus::control
