#pragma once

#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/kube/error.h"

namespace janus::control {

// What a refused call of the API server means for a service.
enum class TroubleKind {
  kRetry,     // later, with backoff; nobody has to do anything
  kCapacity,  // there is no room: a quota. Condition CapacityAvailable
  kInvalid,   // what the user asks for is refused: condition Stalled, reason InvalidSpec
  kStop,      // we are ending, or lead no more
};

struct Trouble {
  TroubleKind kind = TroubleKind::kRetry;
  std::string reason;   // of the condition; empty: none
  std::string message;  // what was tried, and the server's own words
  std::optional<Seconds> retry_after;
};

// `doing`: "create Pod chat-experts-...-3". An admission's refusal (403) is told from a missing
// right of our own by the API server's wording, its only difference: 'User "..." cannot ...'
// against the plugin's own sentence (Kubernetes, "Authorization", "Resource Quotas"), or a
// webhook's: 'admission webhook "..." denied the request: ...', with whatever code that chose.
// Pure.
Trouble TroubleOf(const ApiError& error, const std::string& doing);

}  // namespace janus::control
