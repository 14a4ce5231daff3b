#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "common/status.h"
#include "operator/api/tree.h"

namespace janus::control {

// One cause from the API server's error: "spec.replicas" "FieldValueInvalid" "must be ...".
struct ApiCause {
  std::string reason;
  std::string field;  // path in the object; empty: the whole object
  std::string message;

  friend bool operator==(const ApiCause&, const ApiCause&) = default;
};

// Why a call to the API failed, in the server's own words. A caller acts on `code` alone:
//
//   Aborted            the object has changed since it was read: read again, decide again
//   Unavailable        the same call may work later: back off
//   ResourceExhausted  the server refuses for now: wait `retry_after` if set; otherwise back off
//   OutOfRange         the resourceVersion or continue token is too old: list again
//   InvalidArgument    the object is invalid: `causes` say why
//   NotFound, AlreadyExists, PermissionDenied, DeadlineExceeded, Cancelled: as usual
//   FailedPrecondition our own configuration or credentials
//   DataLoss           the server's reply violates the API's documentation
struct ApiError {
  StatusCode code = StatusCode::kUnknown;
  int http_status = 0;  // 0: no reply
  std::string reason;   // from the API: "Conflict", "Expired", ...; empty: not given
  std::string message;
  std::vector<ApiCause> causes;
  std::optional<Seconds> retry_after;  // from the server; >= 0
  // It is unknown whether a write was executed: it was sent at least in part, and got no reply, or
  // a 5xx, as when etcd is slow. Read the object before the next write.
  bool outcome_unknown = false;

  // "<message> (409 Conflict)"; the server's message includes the causes.
  Status ToStatus() const;
};

// An error that does not come from a server.
ApiError LocalError(Status status);

// The error of a reply that is not 2xx; only this function chooses the code. `body` is a v1 Status,
// or a text from a proxy. `retry_after`: the header's value.
ApiError ErrorOfReply(int http_status, std::string_view body, std::optional<Seconds> retry_after);

// The same for a parsed v1 Status, as in a watch's ERROR event.
ApiError ErrorOfStatusObject(const Node& status);

// A value, or an ApiError. value() of a failed result aborts with the message.
template <class T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value)
      : state_(std::in_place_index<1>, std::move(value)) {}  // NOLINT: implicit by design
  ApiResult(ApiError error) : state_(std::in_place_index<0>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 1; }
  // REQUIRES: !ok()
  const ApiError& error() const& { return std::get<0>(state_); }
  ApiError&& error() && { return std::get<0>(std::move(state_)); }
  Status status() const { return ok() ? OkStatus() : error().ToStatus(); }

  T& value() & {
    JANUS_CHECK(ok(), error().ToStatus().ToString());
    return std::get<1>(state_);
  }
  const T& value() const& {
    JANUS_CHECK(ok(), error().ToStatus().ToString());
    return std::get<1>(state_);
  }
  T&& value() && {
    JANUS_CHECK(ok(), error().ToStatus().ToString());
    return std::get<1>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<ApiError, T> state_;
};

}  // namespace janus::control
