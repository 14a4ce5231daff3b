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
  std::optional<Seconds> retry_after;  // the header's, where it can be read; >= 0
  std::vector<std::string> warnings;   // the headers' values, as they came
  std::string body;                    // empty where a sink took it
};

// Why there is no reply.
struct HttpFailure {
  enum class Kind {
    kNotSent,        // no connection: nothing of the request has left
    kUntrusted,      // the same, because the server's certificate is not trusted
    kBroken,         // the connection ended inside the exchange; what the server did is not known
    kTimedOut,       // the time passed inside the exchange
    kCancelled,      // `stop`
    kSinkHadEnough,  // the sink said so
    kTooLarge,       // the reply's body
  };
  Kind kind = Kind::kBroken;
  std::string message;
};

// Takes a 2xx reply's body as it comes, on the caller's thread; false: no more.
struct BodySink {
  std::function<void()> begin;  // before the first bytes
  std::function<bool(std::string_view bytes)> take;
  Seconds silence{
      90};  // how long the next bytes may be waited for: the exchange's time is without end
};

// One connection to the API server, kept between requests. The only place that knows the HTTP
// library and OpenSSL. Confined to one thread at a time.
class Connection {
 public:
  // A reply's body, unless a sink takes it.
  static constexpr size_t kMaxBodyBytes = size_t{64} << 20;
  static constexpr Seconds kConnectTimeout{10};

  // Reads the certificates, connects only with the first request. FailedPrecondition: no
  // certificate or key in their text, a key of another certificate. `deadlines` outlives this.
  static Result<std::unique_ptr<Connection>> Create(const ClusterConfig& config,
                                                    const Credentials& credentials,
                                                    Deadlines& deadlines);
  virtual ~Connection() = default;

  // One exchange, ended after `timeout` or by `stop` wherever it stands; except while a host's name
  // is looked up, which takes as long as the system's resolver lets it. After a failure the
  // connection is not to be used again.
  virtual std::variant<HttpReply, HttpFailure> Exchange(const HttpRequest& request, Seconds timeout,
                                                        const std::stop_token& stop,
                                                        const BodySink* sink) = 0;

  // Whether the server has not closed it meanwhile, as far as can be seen from here.
  virtual bool IsAlive() const = 0;
};

}  // namespace janus::control
