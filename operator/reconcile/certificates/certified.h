#pragma once

#include <array>
#include <optional>

#include "common/clock.h"
#include "operator/reconcile/pass/observed.h"
#include "operator/reconcile/pass/plan.h"
#include "operator/reconcile/pass/settings.h"
#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// What the certificates of a service allow.
struct Certified {
  bool can_call = true;  // the operator may call the service's workers
  // By role: what its pods mount is there, and valid.
  std::array<bool, 2> can_start{true, true};
  Cause refused;  // CertificatesRefused: one is due and could not be written
  std::optional<MonotonicTime> again;
};

// From what is known of them. Secrets are never read: what of them is valid is what this process
// has written, and where it has not written yet, what pods started with. Pure.
Certified CertifiedBy(const ServiceObserved& seen, const ReconcilerOptions& options,
                      const Sides& sides, const Desired& desired);

// Looks after them, once in each pass; nothing: it has been done, or there are none. Pure.
std::optional<KeepCertificates> PlanCertificates(const ServiceObserved& seen,
                                                 const ReconcilerOptions& options,
                                                 const Desired& desired);

}  // namespace janus::control
