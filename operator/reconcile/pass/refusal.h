#pragma once

#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/kube/error.h"
#include "operator/reconcile/status/cause.h"

namespace janus::control {

// What a refused call of the API server means for a service.
enum class RefusalKind {
  kRetry,     // the call is repeated after a pause; people need not act
  kCapacity,  // a quota leaves no room: condition CapacityAvailable
  kInvalid,   // the server refuses what the user asks for: condition Stalled, reason InvalidSpec
  kStop,      // this process ends, or does not lead any more
};

struct Refusal {
  RefusalKind kind = RefusalKind::kRetry;
  Cause cause;  // reason: of the condition, or empty. message: what was tried, the server's words
  std::optional<Seconds> retry_after;
};

// A call that the server has refused, and that is not repeated in this pass.
struct RefusedCall {
  std::string call;  // "create Pod chat-experts-...-3"
  Refusal refusal;
  bool is_of_this_pass = false;  // false: of an earlier one, and its pause is not over
  bool is_silent = false;        // the object has changed or gone meanwhile: nothing to report
};

// Classifies `error`. `doing` is what was tried: "create Pod chat-experts-...-3". Admission (403)
// differs from a missing right of the operator only by the API server's words: 'User "..." cannot
// ...' is a missing right; a plugin writes a sentence of its own (Kubernetes, "Authorization" and
// "Resource Quotas"); a webhook writes 'admission webhook "..." denied the request: ...' with a
// status code of its choice. Pure.
Refusal RefusalOf(const ApiError& error, const std::string& doing);

// True if repeating the call does not help until people, or another program, have acted.
inline bool CanWait(const Refusal& refusal) {
  return refusal.kind == RefusalKind::kInvalid || refusal.kind == RefusalKind::kCapacity ||
         (refusal.kind == RefusalKind::kRetry && !refusal.cause.reason.empty());
}

}  // namespace janus::control
