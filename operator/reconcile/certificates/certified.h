#pragma once

#include <array>
#include <optional>
#include <set>

#include "common/clock.h"
#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/spec/desired.h"
#include "rpc/credentials/identity.h"

namespace janus::control {

// What the state of a service's certificates permits.
struct Certified {
  bool can_call = true;  // the operator may call the service's workers
  // By role: the Secret that its pods mount exists and is valid.
  std::array<bool, 2> can_start{true, true};
  Cause refused;  // CertificatesRefused: a certificate is due and could not be written
  // Roles with fewer ready pods than wanted: pods may wait for a deleted Secret.
  std::set<PeerRole> lacking;
  std::optional<MonotonicTime> again;
};

// Secrets are never read. A Secret counts as valid if this process has written it; before its first
// write, if pods have started with it. Pure.
Certified CertifiedBy(const ServiceObserved& seen, const ReconcilerOptions& options,
                      const Sides& sides, const Desired& desired);

// Keeps certificates once in each pass; nothing: already done, or the service has none. Pure.
std::optional<KeepCertificates> PlanCertificates(const ServiceObserved& seen,
                                                 const ReconcilerOptions& options,
                                                 const Certified& certified,
                                                 const Desired& desired);

}  // namespace janus::control
