#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/gateway/http_server.h"
#include "dataplane/gateway/request_error.h"

namespace janus::gateway {

// The form of errors, which the path chooses, because a request may be refused before its body is
// read.
enum class ErrorForm : uint8_t {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}; 503 becomes 529
};
ErrorForm ErrorFormOf(std::string_view path);

std::string ToJson(const RequestError& error, ErrorForm form);
// The error as an answer, with Retry-After if it has one.
HttpReply ToReply(const RequestError& error, ErrorForm form);

}  // namespace janus::gateway
