#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/gateway/http_server.h"

namespace janus::gateway {

// Cross-origin requests from pages in a browser, by the Fetch standard. Pure.
struct CorsOptions {
  std::vector<std::string> origins;  // that may call; "*": any; empty: CORS is off
};

// The CORS headers for every answer to a request with this head.
HttpHeaders CorsHeaders(const CorsOptions& options, const HttpHead& head);

// The answer to a preflight request (OPTIONS). Nothing: CORS is off.
std::optional<HttpReply> AnswerPreflight(const CorsOptions& options, const HttpHead& head);

// Whether it is "*", or a browser could send it as Origin: "https://ui.example", without a path.
bool IsOrigin(std::string_view text);

}  // namespace janus::gateway
