#include "operator/reconcile/trouble.h"

namespace janus::control {
namespace {

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

Trouble TroubleOf(const ApiError& error, const std::string& doing) {
  Trouble out;
  out.message = doing + ": " + error.message;
  out.retry_after = error.retry_after;
  switch (error.code) {
    case StatusCode::kCancelled:
      out.kind = TroubleKind::kStop;
      break;
    case StatusCode::kInvalidArgument:
      out.kind = TroubleKind::kInvalid;
      out.reason = "InvalidSpec";
      break;
    case StatusCode::kPermissionDenied:
      if (Has(error.message, "exceeded quota")) {
        out.kind = TroubleKind::kCapacity;
        out.reason = "QuotaExceeded";
      } else if (Has(error.message, "denied the request") ||
                 (Has(error.message, "forbidden: ") && !Has(error.message, "forbidden: User "))) {
        out.kind = TroubleKind::kInvalid;
        out.reason = "InvalidSpec";
      }
      break;
    default:
      break;
  }
  return out;
}

}  // namespace janus::control
