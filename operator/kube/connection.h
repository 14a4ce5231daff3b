#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"
#include "operator/kube/credentials.h"
#include "operator/kube/deadlines.h"

namespace janus::control {

struct HttpRequest {
  std::string method;
  std::string target;  // path and query, percent-encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string content_type;  // of the body
};

struct HttpReply {
  int status = 0;
  std::optional<Seconds> retry_after;  // of the header, if it is valid; >= 0
  std::vector<std::string> warnings;   // header values, unparsed
  std::string body;                    // empty if a sink took it
};

// Why there is no reply.
struct HttpFailure {
  enum class Kind {
    kNotSent,        // no connection: nothing of the request was sent
    kUntrusted,      // not sent, because the server's certificate is not trusted
    kBroken,         // the connection broke during the exchange; the server may have acted
    kTimedOut,       // timeout during the exchange
    kCancelled,      // by `stop`
    kSinkHadEnough,  // the sink returned false
    kTooLarge,       // the reply's body exceeds kMaxBodyBytes
  };
  Kind kind = Kind::kBroken;
  std::string message;
};

// Receives a 2xx reply's body in pieces, on the caller's thread. `take` returns false to end it.
struct BodySink {
  std::function<void()> begin;  // before the first bytes
  std::function<bool(std::string_view bytes)> take;
  Seconds silence{90};  // longest wait for the next bytes; the exchange as a whole has no limit
};

// One connection to the API server, reused for several requests. Only this class uses the HTTP
// library and OpenSSL. Confined to one thread at a time.
class Connection {
 public:
  // Limit of a reply's body, unless a sink takes it.
  static constexpr size_t kMaxBodyBytes = size_t{64} << 20;
  static constexpr Seconds kConnectTimeout{10};

  // Reads the certificates; the first request connects. FailedPrecondition: the text is no
  // certificate or key, or the key does not match the certificate. `deadlines` outlives this.
  static Result<std::unique_ptr<Connection>> Create(const ClusterConfig& config,
                                                    const Credentials& credentials,
                                                    Deadlines& deadlines);
  virtual ~Connection() = default;

  // Sends one request and reads its reply. Ends after `timeout` or by `stop`, except during the
  // lookup of a host name, which ends when the system's resolver returns. Do not use the connection
  // after a failure.
  virtual std::variant<HttpReply, HttpFailure> Exchange(const HttpRequest& request, Seconds timeout,
                                                        const std::stop_token& stop,
                                                        const BodySink* sink) = 0;

  // False once the server has closed the connection, as far as the socket shows it.
  virtual bool IsAlive() const = 0;
};

}  // namespace janus::control
