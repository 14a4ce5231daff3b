#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "hub/url.h"

namespace janus::hub {

// Of a reply, what a client of a hub acts on. Empty: not in the reply.
struct HttpHead {
  int status = 0;
  std::string location;
  std::string content_range;
  std::string error_code;              // X-Error-Code: "GatedRepo", "RevisionNotFound", ...
  std::optional<Seconds> retry_after;  // >= 0; only in its form as seconds
};

// Why there is no reply, or no whole one.
struct HttpFailure {
  enum class Kind {
    kUnknownHost,    // its name has no address
    kNotConnected,   // no connection: nothing was sent
    kUntrusted,      // not sent, because the server's certificate is not trusted
    kBroken,         // the connection ended early, or nothing came for `silence`
    kStopped,        // by `stop`
    kSinkHadEnough,  // the sink returned false
  };
  Kind kind = Kind::kBroken;
  std::string message;  // begins with the host
};

// Receives a reply on the caller's thread. Bodies of other statuses than 200 and 206 are dropped.
struct HttpSink {
  std::function<bool(const HttpHead&)> begin;        // before the body; false ends the request
  std::function<bool(std::string_view bytes)> take;  // false ends the request
};

struct HttpGet {
  Url url;
  std::vector<std::pair<std::string, std::string>> headers;
  Seconds silence{60};  // longest wait for the next bytes; the request as a whole has no limit
};

// Sends one GET over a connection of its own, to the first address of the host that accepts one.
// Redirects are not followed. HTTPS servers need a
// certificate for their name from the system's roots (SSL_CERT_FILE and SSL_CERT_DIR set others).
// `stop` ends it at once. Thread-safe. REQUIRES: the process ignores SIGPIPE.
std::variant<HttpHead, HttpFailure> SendGet(const HttpGet& request, const HttpSink& sink,
                                            const std::stop_token& stop);

}  // namespace janus::hub
