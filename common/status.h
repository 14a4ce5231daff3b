#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/check.h"

namespace janus {

// Why a call failed, for the caller to act on; the numbers are gRPC's. Which code to choose:
// InvalidArgument for outside data that can never work, Unavailable to retry the same call, Aborted
// to retry from a fresh read, ResourceExhausted for a limit that is reached, FailedPrecondition if
// something must be fixed first, Internal for a broken invariant or a device error.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

std::string_view ToString(StatusCode code);

// The outcome of a call without a value. Thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Adds what the caller was doing, so that a message reads like a path: "load weights: <message>".
  Status Annotate(std::string_view doing) &&;
  Status Annotate(std::string_view doing) const&;

  // "InvalidArgument: <message>", or "OK".
  std::string ToString() const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() {
  return {};
}
inline Status Cancelled(std::string m) {
  return {StatusCode::kCancelled, std::move(m)};
}
inline Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status DeadlineExceeded(std::string m) {
  return {StatusCode::kDeadlineExceeded, std::move(m)};
}
inline Status NotFound(std::string m) {
  return {StatusCode::kNotFound, std::move(m)};
}
inline Status AlreadyExists(std::string m) {
  return {StatusCode::kAlreadyExists, std::move(m)};
}
inline Status PermissionDenied(std::string m) {
  return {StatusCode::kPermissionDenied, std::move(m)};
}
inline Status ResourceExhausted(std::string m) {
  return {StatusCode::kResourceExhausted, std::move(m)};
}
inline Status FailedPrecondition(std::string m) {
  return {StatusCode::kFailedPrecondition, std::move(m)};
}
inline Status Aborted(std::string m) {
  return {StatusCode::kAborted, std::move(m)};
}
inline Status OutOfRange(std::string m) {
  return {StatusCode::kOutOfRange, std::move(m)};
}
inline Status Unimplemented(std::string m) {
  return {StatusCode::kUnimplemented, std::move(m)};
}
inline Status Internal(std::string m) {
  return {StatusCode::kInternal, std::move(m)};
}
inline Status Unavailable(std::string m) {
  return {StatusCode::kUnavailable, std::move(m)};
}
inline Status DataLoss(std::string m) {
  return {StatusCode::kDataLoss, std::move(m)};
}

// A value, or the status of its failure. value() of a failed Result aborts with the message.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<1>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT
    JANUS_CHECK(!std::get<0>(state_).ok(), "a Result made of an OK status has no value");
  }

  bool ok() const { return state_.index() == 1; }
  Status status() const& { return ok() ? Status() : std::get<0>(state_); }
  Status status() && { return ok() ? Status() : std::move(std::get<0>(state_)); }

  T& value() & {
    JANUS_CHECK(ok(), std::get<0>(state_).ToString());
    return std::get<1>(state_);
  }
  const T& value() const& {
    JANUS_CHECK(ok(), std::get<0>(state_).ToString());
    return std::get<1>(state_);
  }
  T&& value() && {
    JANUS_CHECK(ok(), std::get<0>(state_).ToString());
    return std::move(std::get<1>(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace janus

#define JANUS_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                           \
    if (::janus::Status janus_status_ = (expression); !janus_status_.ok()) return janus_status_; \
  } while (false)

#define JANUS_STATUS_CONCAT_INNER(a, b) a##b
#define JANUS_STATUS_CONCAT(a, b) JANUS_STATUS_CONCAT_INNER(a, b)
#define JANUS_ASSIGN_OR_RETURN(declaration, expression) \
  JANUS_ASSIGN_OR_RETURN_IMPL(JANUS_STATUS_CONCAT(janus_result_, __LINE__), declaration, expression)
#define JANUS_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                        \
  if (!result.ok()) return std::move(result).status();               \
  declaration = std::move(result).value()
