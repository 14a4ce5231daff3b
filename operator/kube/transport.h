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
  double calls_per_second = 50;  // client-side limit in the long run, including watches
  double burst = 100;            // calls that may start at once
  int connections = 8;           // kept for calls; more calls wait; >= 1
  int watches = 64;              // open at a time, each on a separate connection; >= 1
  Seconds idle_sweep{15};        // how often unused connections are checked
  RetryPolicy retry;
  ClientMetrics* metrics = nullptr;          // outlives the transport; null: none
  std::shared_ptr<ServerWarnings> warnings;  // logs server warnings; null: ignores them
};

// Sends requests to the API server. It waits for the rate limit, reuses a connection, adds fresh
// credentials, and retries if that is harmless. Thread-safe; calls block.
class HttpTransport {
 public:
  // An idle connection is closed after this time; API servers close theirs after 90 s. If the
  // server has closed it first, a call or a sweep notices and drops it before anything is written.
  static constexpr Seconds kMaxIdle{60};

  // `timeline` outlives this.
  HttpTransport(ClusterConfig config, TransportOptions options, const Timeline& timeline);
  // REQUIRES: no call is running.
  ~HttpTransport();

  // Returns a 2xx reply or an error. `request` carries neither credentials nor User-Agent, but must
  // carry Accept.
  ApiResult<HttpReply> Call(const HttpRequest& request, Repeat repeat, const CallLimits& limits);

  // One attempt that streams a 2xx body to `sink`. Ends when the sink ends it (false), when the
  // server ends it (true), by `stop`, or after sink.silence without bytes (DeadlineExceeded).
  // FailedPrecondition: the limit of open watches is reached.
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
  // Returns an idle connection that is still usable, or a new one.
  Result<std::unique_ptr<Connection>> Connect(const Credentials& credentials, bool is_kept);
  void Keep(std::unique_ptr<Connection> connection, const Credentials& credentials);
  // Removes connections from idle_ that are no longer usable. Close them without the lock.
  std::vector<Idle> TakeUseless() JANUS_REQUIRES(mu_);
  // Sends one request with credentials, and again if they were refused and newer ones exist.
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
  std::vector<Idle> idle_ JANUS_GUARDED_BY(mu_);  // most recently used at the back
  int calls_ JANUS_GUARDED_BY(mu_) = 0;           // that hold a connection
  int watches_ JANUS_GUARDED_BY(mu_) = 0;

  std::jthread cutter_;  // enforces the deadlines of deadlines_ and idle_
};

}  // namespace janus::control
