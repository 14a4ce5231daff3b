#include "operator/kube/error.h"

#include <algorithm>
#include <iterator>

#include "operator/api/json.h"
#include "operator/kube/object.h"

namespace janus::control {
namespace {

// Most bytes shown of a body that is not a Status, such as a proxy's HTML page.
constexpr size_t kMaxShownBytes = 200;
constexpr Seconds kMostRetryAfter{3600};

StatusCode CodeOf(int http_status, std::string_view reason) {
  switch (http_status) {
    case 401:
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 405:
    case 501:
      return StatusCode::kUnimplemented;
    case 408:
      return StatusCode::kUnavailable;
    case 409:
      return reason == "AlreadyExists" ? StatusCode::kAlreadyExists : StatusCode::kAborted;
    case 410:
      return StatusCode::kOutOfRange;
    case 429:
      return StatusCode::kResourceExhausted;
    default:
      if (http_status >= 500) return StatusCode::kUnavailable;
      if (http_status >= 400) return StatusCode::kInvalidArgument;
      return StatusCode::kDataLoss;  // neither success nor error: not an API server's status
  }
}

std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kMaxShownBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return out;
}

std::optional<Seconds> Bounded(std::optional<Seconds> asked) {
  if (!asked) return asked;
  return std::clamp(*asked, Seconds(0), kMostRetryAfter);
}

// For some mistakes the server returns 500 without a reason, although it wrote nothing and a retry
// cannot help: a server-side apply of unknown fields, or to the scale of a custom resource; a
// version in an object to create; a version that is not a number.
bool IsRefusal(const ApiError& error) {
  static constexpr std::string_view kBegins[] = {
      "failed to create typed patch object",
      "failed to convert new object",
      "failed to create manager for existing fields",
      "resourceVersion should not be set on objects to be created",
      "resourceVersion: Invalid value",
      "strconv.ParseUint: parsing"};
  return error.http_status == 500 && error.reason.empty() &&
         std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return error.message.starts_with(begin); });
}

// The name now belongs to an object with another uid than in the call. The server returns 409 for
// an update, 422 for an apply or a patch.
bool IsOfAnotherUid(const ApiError& error) {
  return error.http_status == 422 &&
         std::any_of(error.causes.begin(), error.causes.end(),
                     [](const ApiCause& cause) { return cause.field == "metadata.uid"; });
}

ApiError Make(int http_status, const Node& status, std::optional<Seconds> retry_after) {
  ApiError error;
  error.http_status = http_status;
  error.reason = TextAt(status, {"reason"});
  error.message = TextAt(status, {"message"});
  error.code = CodeOf(http_status, error.reason);
  error.outcome_unknown = http_status >= 500;
  if (const Node* causes = FindAt(status, {"details", "causes"})) {
    for (const Node& cause : causes->items) {
      error.causes.push_back({std::string(TextAt(cause, {"reason"})),
                              std::string(TextAt(cause, {"field"})),
                              std::string(TextAt(cause, {"message"}))});
    }
  }
  if (IsRefusal(error)) {
    error.code = StatusCode::kInvalidArgument;
    error.outcome_unknown = false;
  }
  if (IsOfAnotherUid(error)) error.code = StatusCode::kAborted;
  const int64_t in_body = IntegerAt(status, {"details", "retryAfterSeconds"}).value_or(0);
  if (!retry_after && in_body > 0) retry_after = Seconds(static_cast<double>(in_body));
  error.retry_after = Bounded(retry_after);
  return error;
}

}  // namespace

Status ApiError::ToStatus() const {
  std::string text = message.empty() ? "no message" : message;
  if (http_status != 0) {
    text += " (" + std::to_string(http_status);
    if (!reason.empty()) text += " " + reason;
    text += ")";
  }
  return {code, std::move(text)};
}

ApiError LocalError(Status status) {
  ApiError error;
  error.code = status.code();
  error.message = status.message();
  return error;
}

ApiError ErrorOfReply(int http_status, std::string_view body, std::optional<Seconds> retry_after) {
  const Result<Node> read = ParseJson(body, "status");
  if (read.ok() && TextAt(*read, {"kind"}) == "Status")
    return Make(http_status, *read, retry_after);
  ApiError error = Make(http_status, Node::Map(), retry_after);
  error.message = body.empty() ? "the server answered without a reason"
                               : "the server answered: " + Printable(body);
  return error;
}

ApiError ErrorOfStatusObject(const Node& status) {
  const int64_t code = IntegerAt(status, {"code"}).value_or(0);
  if (code >= 400 && code < 600) return Make(static_cast<int>(code), status, std::nullopt);
  ApiError error = Make(0, status, std::nullopt);
  error.code = StatusCode::kUnavailable;
  if (error.message.empty()) error.message = "the server ended the watch without a reason";
  return error;
}

}  // namespace janus::control
