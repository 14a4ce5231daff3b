#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataplane/gateway/http_server.h"

namespace janus::gateway {

// Cross-origin requests of pages in a browser, by the Fetch standard. Pure.
struct CorsOptions {
  std::vector<std::string> origins;  // that may call; "*": any; empty: CORS is off
};

// The headers of every answer to a request with this head.
HttpHeaders CorsHeaders(const CorsOptions& options, const HttpHead& head);

// The answer to a preflight request (OPTIONS). Nothing: CORS is off.
std::optional<HttpReply> AnswerPreflight(const CorsOptions& options, const HttpHead& head);

// Whether a browser could send it as Origin, or it is "*": "https://ui.example", no path behind.
bool IsOrigin(std::string_view text);

}  // namespace janus::gateway
