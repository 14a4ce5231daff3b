#include "operator/reconcile/pass/refusal.h"

#include <algorithm>

namespace janus::control {
namespace {

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

Refusal RefusalOf(const ApiError& error, const std::string& doing) {
  Refusal out;
  out.cause.message = doing + ": " + error.message;
  out.retry_after = error.retry_after;
  out.namespace_ends = std::ranges::any_of(
      error.causes, [](const ApiCause& cause) { return cause.reason == "NamespaceTerminating"; });
  switch (error.code) {
    case StatusCode::kCancelled:
      out.kind = RefusalKind::kStop;
      break;
    case StatusCode::kInvalidArgument:
      out.kind = RefusalKind::kInvalid;
      out.cause.reason = "InvalidSpec";
      break;
    case StatusCode::kPermissionDenied:
      if (Has(error.message, "exceeded quota")) {
        out.kind = RefusalKind::kCapacity;
        out.cause.reason = "QuotaExceeded";
      } else if (Has(error.message, "denied the request") ||
                 (Has(error.message, "forbidden: ") && !Has(error.message, "forbidden: User "))) {
        // A LimitRange, a policy or a webhook. It may change without an edit of the spec.
        out.kind = RefusalKind::kCapacity;
        out.cause.reason = "AdmissionDenied";
      }
      break;
    default:
      break;
  }
  return out;
}

}  // namespace janus::control
