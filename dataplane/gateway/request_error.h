#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace janus::gateway {

// A refusal, in the words of the OpenAI API. answers/errors.h has its forms.
struct RequestError {
  int http_status = 500;
  std::string type = "api_error";  // invalid_request_error, authentication_error, ...
  std::string code;                // empty: null
  std::string param;               // empty: null
  std::string message;
  int retry_after_seconds = 0;  // > 0: the header Retry-After
};

template <class T>
using RequestResult = std::variant<T, RequestError>;

// 400: the value of `param` is not valid.
inline RequestError InvalidParameter(std::string_view param, std::string message) {
  return {400, "invalid_request_error", "invalid_value", std::string(param), std::move(message)};
}
// 400: a parameter that the API, or a client, knows, but that this gateway does not implement.
inline RequestError UnsupportedParameter(std::string_view param, std::string message) {
  return {400, "invalid_request_error", "unsupported_parameter", std::string(param),
          std::move(message)};
}
inline RequestError Overloaded(std::string message, int retry_after_seconds) {
  return {429, "rate_limit_error", "overloaded", "", std::move(message), retry_after_seconds};
}
inline RequestError NoWorkers(std::string message) {
  return {503, "api_error", "service_unavailable", "", std::move(message), 1};
}

}  // namespace janus::gateway
