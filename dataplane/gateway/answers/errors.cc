#include "dataplane/gateway/answers/errors.h"

#include "dataplane/gateway/answers/event.h"

namespace janus::gateway {

namespace {

// Anthropic's status for a server that takes no requests now. Its clients retry it.
constexpr int kOverloaded = 529;

std::string_view AnthropicType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ErrorForm ErrorFormOf(std::string_view path) {
  return path.starts_with("/v1/messages") ? ErrorForm::kAnthropic : ErrorForm::kOpenAi;
}

std::string ToJson(const RequestError& error, ErrorForm form) {
  if (form == ErrorForm::kAnthropic) {
    return Dump(
        {{"type", "error"},
         {"error", {{"type", AnthropicType(error.http_status)}, {"message", error.message}}}});
  }
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return Dump({{"error",
                {{"message", error.message},
                 {"type", error.type},
                 {"param", or_null(error.param)},
                 {"code", or_null(error.code)}}}});
}

HttpReply ToReply(const RequestError& error, ErrorForm form) {
  HttpReply reply{.status = error.http_status, .body = ToJson(error, form)};
  if (form == ErrorForm::kAnthropic && error.http_status == 503) reply.status = kOverloaded;
  if (error.retry_after_seconds > 0) {
    reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after_seconds));
  }
  return reply;
}

}  // namespace janus::gateway
