#include "common/status.h"

#include <cstdio>

namespace janus {

std::string_view ToString(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kCancelled:
      return "Cancelled";
    case StatusCode::kUnknown:
      return "Unknown";
    case StatusCode::kInvalidArgument:
      return "InvalidArgument";
    case StatusCode::kDeadlineExceeded:
      return "DeadlineExceeded";
    case StatusCode::kNotFound:
      return "NotFound";
    case StatusCode::kAlreadyExists:
      return "AlreadyExists";
    case StatusCode::kPermissionDenied:
      return "PermissionDenied";
    case StatusCode::kResourceExhausted:
      return "ResourceExhausted";
    case StatusCode::kFailedPrecondition:
      return "FailedPrecondition";
    case StatusCode::kAborted:
      return "Aborted";
    case StatusCode::kOutOfRange:
      return "OutOfRange";
    case StatusCode::kUnimplemented:
      return "Unimplemented";
    case StatusCode::kInternal:
      return "Internal";
    case StatusCode::kUnavailable:
      return "Unavailable";
    case StatusCode::kDataLoss:
      return "DataLoss";
  }
  return "Unknown";
}

Status Status::Annotate(std::string_view doing) && {
  if (!ok()) message_ = std::string(doing) + ": " + message_;
  return std::move(*this);
}

Status Status::Annotate(std::string_view doing) const& {
  return Status(*this).Annotate(doing);
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(janus::ToString(code_)) + ": " + message_;
}

void CheckFailed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s\n", file, line, condition, values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace janus
