#include "dataplane/gateway/cors.h"

#include <algorithm>

namespace janus::gateway {

namespace {

constexpr std::string_view kAny = "*";

bool Allows(const CorsOptions& options, const std::string& origin) {
  return std::ranges::any_of(options.origins, [&](const std::string& allowed) {
    return allowed == kAny || allowed == origin;
  });
}

bool IsHeaderNames(std::string_view text) {
  constexpr size_t kMostBytes = 1024;
  return text.size() <= kMostBytes && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == ',' || c == ' ';
         });
}

}  // namespace

HttpHeaders CorsHeaders(const CorsOptions& options, const HttpHead& head) {
  if (options.origins.empty()) return {};
  const bool any = std::ranges::find(options.origins, kAny) != options.origins.end();
  HttpHeaders out;
  // A cache must not give one origin's answer to another.
  if (!any) out.emplace_back("Vary", "Origin");
  if (head.origin.empty() || !Allows(options, head.origin)) return out;
  out.emplace_back("Access-Control-Allow-Origin", any ? std::string(kAny) : head.origin);
  out.emplace_back("Access-Control-Expose-Headers",
                   "X-Request-Id, Retry-After, X-Ignored-Parameters");
  return out;
}

std::optional<HttpReply> AnswerPreflight(const CorsOptions& options, const HttpHead& head) {
  if (options.origins.empty() || head.method != "OPTIONS") return std::nullopt;
  HttpReply reply{.status = 204};
  if (head.origin.empty() || !Allows(options, head.origin)) return reply;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  // Named one by one: a wildcard does not cover Authorization.
  if (IsHeaderNames(head.requested_headers)) {
    reply.headers.emplace_back("Access-Control-Allow-Headers", head.requested_headers.empty()
                                                                   ? "Authorization, Content-Type"
                                                                   : head.requested_headers);
  }
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

bool IsOrigin(std::string_view text) {
  if (text == kAny) return true;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return c > ' ' && c < 0x7F && c != '/' && c != ',' && c != '*';
  });
}

}  // namespace janus::gateway
