#pragma once

#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "operator/kube/connection.h"
#include "operator/kube/credentials.h"
#include "operator/kube/error.h"
#include "operator/kube/metrics.h"
#include "operator/kube/object_api.h"
#include "operator/kube/rate_limit.h"
#include "operator/kube/retry.h"
#include "operator/kube/timeline.h"
#include "operator/kube/warnings.h"

namespace janus::control {

struct TransportOptions {
  std::string user_agent;        // with a version, for the API server's audit log
  double calls_per_second = 50;  // client-side limit in the long run, watches included
  double burst = 100;            // calls that may go at once
  int connections = 8;           // kept for calls; further calls wait for one, 1..
  int watches = 64;              // open at a time, each on a connection of its own; 1..
  Seconds idle_sweep{15};        // how often unused connections are checked
  RetryPolicy retry;
  ClientMetrics* metrics = nullptr;          // outlives the transport; null: none
  std::shared_ptr<ServerWarnings> warnings;  // what the server warns of; null: it is passed by
};

// Takes requests to the API server: their turn under the rate limit, a kept connection, fresh
// credentials, another attempt where that does no harm. Thread-safe; calls block.
class HttpTransport {
 public:
  // An idle connection is dropped after this; API servers close theirs after 90 s. One whose end
  // the server has closed is dropped when a call or a sweep finds it, and never written to.
  static constexpr Seconds kMaxIdle{60};

  // `timeline` outlives this.
  HttpTransport(ClusterConfig config, TransportOptions options, const Timeline& timeline);
  // REQUIRES: no call is running.
  ~HttpTransport();

  // A 2xx reply, or why there is none. `request` carries neither credentials nor User-Agent, but
  // says what it accepts.
  ApiResult<HttpReply> Call(const HttpRequest& request, Repeat repeat, const CallLimits& limits);

  // One attempt whose 2xx body goes to `sink`; ends when the sink or the server ends it (true: the
  // server), by `stop`, or when nothing came for sink.silence (DeadlineExceeded).
  // FailedPrecondition: as many watches are open as there may be.
  ApiResult<bool> Stream(const HttpRequest& request, const BodySink& sink,
                         const std::stop_token& stop);

 private:
  struct Idle {
    std::unique_ptr<Connection> connection;
    uint64_t tls_version = 0;
    MonotonicTime since;
  };
  using Exchanged = std::variant<HttpReply, HttpFailure>;

  bool WaitForTurn(MonotonicTime deadline, const std::stop_token& stop);
  bool TakeConnectionSlot(MonotonicTime deadline, const std::stop_token& stop);
  void ReturnConnectionSlot();
  // A kept one that still can be used, or a new one.
  Result<std::unique_ptr<Connection>> Connect(const Credentials& credentials, bool is_kept);
  void Keep(std::unique_ptr<Connection> connection, const Credentials& credentials);
  // Those of idle_ that are of no use any more: to be closed without the lock.
  std::vector<Idle> TakeUseless() JANUS_REQUIRES(mu_);
  // One request with credentials; twice when the first ones were refused and there are others.
  ApiResult<HttpReply> Once(const HttpRequest& request, MonotonicTime deadline,
                            const BodySink* sink, const std::stop_token& stop);
  ApiResult<HttpReply> Attempt(const HttpRequest& request, const Credentials& credentials,
                               Seconds timeout, const BodySink* sink, const std::stop_token& stop);
  void TakeWarnings(const HttpRequest& request, const HttpReply& reply);
  void CutOverdue(const std::stop_token& stop);

  const TransportOptions options_;
  const Timeline& timeline_;
  CredentialSource credentials_;
  Deadlines deadlines_;

  Mutex mu_;
  CondVar changed_;
  RateLimit rate_ JANUS_GUARDED_BY(mu_);
  std::minstd_rand random_ JANUS_GUARDED_BY(mu_);
  std::vector<Idle> idle_ JANUS_GUARDED_BY(mu_);  // last used at the back
  int calls_ JANUS_GUARDED_BY(mu_) = 0;           // with a connection
  int watches_ JANUS_GUARDED_BY(mu_) = 0;

  std::jthread cutter_;  // lets time pass for deadlines_ and idle_
};

}  // namespace janus::control
