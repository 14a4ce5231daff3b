#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "operator/certificates/certificate_keeper.h"
#include "operator/kube/object_api.h"
#include "operator/reconcile/certificates/kept_certificates.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/pass/refusals.h"
#include "operator/reconcile/status/service_event.h"

namespace janus::control {

// Secrets are never read. Rewriting them at this interval repairs those that others deleted or
// changed.
inline constexpr std::chrono::seconds kAppliedAnew{3600};
// The same for a role that lacks ready pods.
inline constexpr std::chrono::seconds kAppliedForPods{30};

// Carries out KeepCertificates: issues the service's certificates that are due, and writes them
// into the roles' Secrets. It reads keys, writes them and reads again in one call, so that keys
// stay in memory only briefly.
class CertificateWriter {
 public:
  struct Means {
    ObjectApi& api;
    CertificateKeeper& keeper;
    CallLimits limits;
    MonotonicTime now;
    WallTime wall;
    Refusals& refusals;
    const TellEvent& tell;
  };
  CertificateWriter(const Means& means, const KeepCertificates& action, KeptCertificates& kept)
      : means_(means), action_(action), service_(*action.service), kept_(kept) {}

  // Updates `kept`. Returns the refused writes, which are reported and retried; other writes go on.
  std::vector<std::pair<std::string, Refusal>> Run();

 private:
  void Refused(const ApiError& error, const std::string& call);
  void Say(const Refusal& refusal);
  void ApplySecrets(const ServiceCertificates& issued);
  bool IsDue(const ServiceCertificates& issued, const IssuedLeaf& leaf);
  void Apply(const ServiceCertificates& issued, const IssuedLeaf& leaf);

  const Means means_;
  const KeepCertificates& action_;
  const MoEService& service_;
  KeptCertificates& kept_;
  std::vector<std::pair<std::string, Refusal>> refused_;
};

}  // namespace janus::control
