#pragma once

#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/kube/error.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// What a refused API call means for a service.
enum class RefusalKind {
  kRetry,     // retried after a pause; users need not act
  kCapacity,  // a quota is exhausted, or a policy denies it: condition CapacityAvailable
  kInvalid,   // the server refuses the user's request: condition Stalled, reason InvalidSpec
  kStop,      // this process ends, or no longer leads
};

struct Refusal {
  RefusalKind kind = RefusalKind::kRetry;
  Cause cause;  // reason: of the condition, or empty. message: the attempt and the server's words
  std::optional<Seconds> retry_after;
  WallTime since = {};          // when the call was first refused, if it has been repeated since
  bool namespace_ends = false;  // the namespace is being deleted
};

// A refused call that is not repeated in this pass.
struct RefusedCall {
  std::string call;  // "create Pod chat-experts-...-3"
  Refusal refusal;
  bool is_of_this_pass = false;  // false: from an earlier pass, and its pause is not over
  bool is_silent = false;        // the object changed or was deleted meanwhile: nothing to report
};

// Classifies `error`. `doing` is what was tried: "create Pod chat-experts-...-3". For 403, only the
// API server's text tells a missing right of the operator from admission: 'User "..." cannot ...'
// is a missing right. An admission plugin has another text (Kubernetes, "Authorization" and
// "Resource Quotas"). A webhook writes 'admission webhook "..." denied the request: ...' with any
// status code. Pure.
Refusal RefusalOf(const ApiError& error, const std::string& doing);

// True if a retry fails until people or another program have acted.
inline bool CanWait(const Refusal& refusal) {
  return refusal.kind == RefusalKind::kInvalid || refusal.kind == RefusalKind::kCapacity ||
         (refusal.kind == RefusalKind::kRetry && !refusal.cause.reason.empty());
}

}  // namespace janus::control
