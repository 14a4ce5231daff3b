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

// One of the causes that the API server gives: "spec.replicas" "FieldValueInvalid" "must be ...".
struct ApiCause {
  std::string reason;
  std::string field;  // path in the object; empty: the whole
  std::string message;

  friend bool operator==(const ApiCause&, const ApiCause&) = default;
};

// Why a call to the API failed, in the server's own words. A caller acts on `code` alone:
//
//   Aborted            the object has changed since it was read: read again, decide again
//   Unavailable        the same call may work later: back off
//   ResourceExhausted  the server refuses for now: wait `retry_after`, else back off
//   OutOfRange         the resourceVersion or continue token is too old: list again
//   InvalidArgument    the object can never be taken: `causes` say why
//   NotFound, AlreadyExists, PermissionDenied, DeadlineExceeded, Cancelled: as they read
//   FailedPrecondition our own configuration or credentials
//   DataLoss           the server's answer is not what the API's documents say
struct ApiError {
  StatusCode code = StatusCode::kUnknown;
  int http_status = 0;  // 0: no answer came
  std::string reason;   // the API's: "Conflict", "Expired", ...; empty: it gave none
  std::string message;
  std::vector<ApiCause> causes;
  std::optional<Seconds> retry_after;  // as the server asked; >= 0
  // A write may have been done or not: the request was sent, or a part of it, and no answer came,
  // or a 5xx, as when etcd was slow. Read before it is written again.
  bool outcome_unknown = false;

  // "<message> (409 Conflict)"; the causes are part of the server's message already.
  Status ToStatus() const;
};

// An error that no server spoke of.
ApiError LocalError(Status status);

// What a reply that is not 2xx says. `body` is a v1 Status, or whatever a proxy made of it;
// `retry_after`: the header's value, seconds. One place decides which code it is.
ApiError ErrorOfReply(int http_status, std::string_view body, std::optional<Seconds> retry_after);

// The same of a v1 Status that was read already: what a watch's ERROR event carries.
ApiError ErrorOfStatusObject(const Node& status);

// A value, or the ApiError for which there is none. value() of a failed one aborts with the
// message.
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
