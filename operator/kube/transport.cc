#include "operator/kube/transport.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace janus::control {
namespace {

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

// The error of a failed exchange. A write that may have been sent may have been executed.
ApiError ErrorOf(const HttpFailure& failure) {
  using Kind = HttpFailure::Kind;
  const auto make = [&](StatusCode code, bool outcome_unknown) {
    ApiError error = LocalError({code, failure.message});
    error.outcome_unknown = outcome_unknown;
    return error;
  };
  switch (failure.kind) {
    case Kind::kNotSent:
      return make(StatusCode::kUnavailable, false);
    case Kind::kUntrusted:
      return make(StatusCode::kFailedPrecondition, false);
    case Kind::kBroken:
      return make(StatusCode::kUnavailable, true);
    case Kind::kTimedOut:
      return make(StatusCode::kDeadlineExceeded, true);
    case Kind::kCancelled:
    case Kind::kSinkHadEnough:
      return make(StatusCode::kCancelled, true);
    case Kind::kTooLarge:
      return make(StatusCode::kResourceExhausted, true);
  }
  return make(StatusCode::kInternal, true);
}

// The HTTP status, if there was a reply.
std::optional<int> CodeOf(const std::variant<HttpReply, HttpFailure>& exchanged) {
  if (const auto* const reply = std::get_if<HttpReply>(&exchanged)) return reply->status;
  // Only a 2xx body goes to a sink.
  const bool was_read = std::get<HttpFailure>(exchanged).kind == HttpFailure::Kind::kSinkHadEnough;
  return was_read ? std::optional(200) : std::nullopt;
}

ApiError StoppedEarly(const std::stop_token& stop, std::string_view doing) {
  if (stop.stop_requested()) return LocalError(Cancelled("stopped " + std::string(doing)));
  return LocalError(DeadlineExceeded("no time left " + std::string(doing)));
}

// Errors that refreshed credentials may fix.
bool IsRefusal(const ApiError& error) {
  return error.http_status == 401 || error.code == StatusCode::kFailedPrecondition;
}

}  // namespace

HttpTransport::HttpTransport(ClusterConfig config, TransportOptions options,
                             const Timeline& timeline)
    : options_(std::move(options)),
      timeline_(timeline),
      credentials_(std::move(config), timeline),
      rate_(options_.calls_per_second, options_.burst, timeline.Now()),
      random_(RandomOf(0)),
      cutter_([this](const std::stop_token& stop) { CutOverdue(stop); }) {
  JANUS_CHECK(options_.connections >= 1 && options_.watches >= 1, options_.connections,
              options_.watches);
}

HttpTransport::~HttpTransport() {
  cutter_.request_stop();
  deadlines_.Wake();
}

void HttpTransport::CutOverdue(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const MonotonicTime now = MonotonicClock::now();
    deadlines_.Cut(now);
    std::vector<Idle> useless;
    {
      const MutexLock lock(mu_);
      useless = TakeUseless();
    }
    useless.clear();
    const MonotonicTime sweep = Add(now, options_.idle_sweep);
    deadlines_.Wait(std::min(deadlines_.Next().value_or(sweep), sweep));
  }
}

std::vector<HttpTransport::Idle> HttpTransport::TakeUseless() {
  const MonotonicTime now = timeline_.Now();
  const auto useless = std::stable_partition(idle_.begin(), idle_.end(), [&](const Idle& idle) {
    return now - idle.since < kMaxIdle && idle.connection->IsAlive();
  });
  std::vector<Idle> out(std::make_move_iterator(useless), std::make_move_iterator(idle_.end()));
  idle_.erase(useless, idle_.end());
  return out;
}

bool HttpTransport::WaitForTurn(MonotonicTime deadline, const std::stop_token& stop) {
  if (stop.stop_requested()) return false;
  std::optional<MonotonicTime> turn;
  {
    const MutexLock lock(mu_);
    turn = rate_.Take(timeline_.Now(), deadline);
  }
  if (!turn) return false;
  if (*turn <= timeline_.Now() || timeline_.WaitUntil(*turn, stop)) return true;
  const MutexLock lock(mu_);
  rate_.GiveBack(timeline_.Now());
  return false;
}

bool HttpTransport::TakeConnectionSlot(MonotonicTime deadline, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mu_);
    changed_.NotifyAll();
  });
  // Calls of others end in real time.
  const MonotonicTime until = Add(MonotonicClock::now(), deadline - timeline_.Now());
  const MutexLock lock(mu_);
  while (calls_ >= options_.connections) {
    if (stop.stop_requested() || MonotonicClock::now() >= until) return false;
    changed_.WaitUntil(mu_, until);
  }
  ++calls_;
  return true;
}

void HttpTransport::ReturnConnectionSlot() {
  const MutexLock lock(mu_);
  --calls_;
  changed_.NotifyAll();
}

Result<std::unique_ptr<Connection>> HttpTransport::Connect(const Credentials& credentials,
                                                           bool is_kept) {
  std::vector<Idle> dropped;  // destroyed without the lock
  if (is_kept) {
    const MutexLock lock(mu_);
    dropped = TakeUseless();
    while (!idle_.empty()) {
      Idle last = std::move(idle_.back());
      idle_.pop_back();
      if (last.tls_version == credentials.tls_version) return std::move(last.connection);
      dropped.push_back(std::move(last));
    }
  }
  return Connection::Create(credentials_.config(), credentials, deadlines_);
}

void HttpTransport::Keep(std::unique_ptr<Connection> connection, const Credentials& credentials) {
  const MutexLock lock(mu_);
  idle_.push_back({std::move(connection), credentials.tls_version, timeline_.Now()});
}

ApiResult<HttpReply> HttpTransport::Attempt(const HttpRequest& request,
                                            const Credentials& credentials, Seconds timeout,
                                            const BodySink* sink, const std::stop_token& stop) {
  const bool is_kept = sink == nullptr;
  Result<std::unique_ptr<Connection>> connection = Connect(credentials, is_kept);
  if (!connection.ok()) return LocalError(std::move(connection).status());
  HttpRequest sent = request;
  sent.headers.emplace_back("User-Agent", options_.user_agent);
  if (!credentials.token.empty()) {
    sent.headers.emplace_back("Authorization", "Bearer " + credentials.token);
  }
  const MonotonicTime began = timeline_.Now();
  Exchanged exchanged = (*connection)->Exchange(sent, timeout, stop, sink);
  if (options_.metrics != nullptr) {
    const Seconds took = timeline_.Now() - began;
    options_.metrics->Attempted(request.method, CodeOf(exchanged),
                                is_kept ? std::optional(took) : std::nullopt);
  }
  if (const auto* const failure = std::get_if<HttpFailure>(&exchanged)) return ErrorOf(*failure);
  if (is_kept) Keep(*std::move(connection), credentials);
  auto& reply = std::get<HttpReply>(exchanged);
  TakeWarnings(request, reply);
  if (reply.status >= 200 && reply.status < 300) return std::move(reply);
  return ErrorOfReply(reply.status, reply.body, reply.retry_after);
}

void HttpTransport::TakeWarnings(const HttpRequest& request, const HttpReply& reply) {
  const std::string_view target = request.target;
  for (const std::string& text : WarningTexts(reply.warnings)) {
    if (options_.metrics != nullptr) options_.metrics->Warned();
    if (options_.warnings == nullptr) continue;
    options_.warnings->Tell(text, request.method, target.substr(0, target.find('?')));
  }
}

ApiResult<HttpReply> HttpTransport::Once(const HttpRequest& request, MonotonicTime deadline,
                                         const BodySink* sink, const std::stop_token& stop) {
  const MonotonicTime waits_since = timeline_.Now();
  if (!WaitForTurn(deadline, stop))
    return StoppedEarly(stop, "waiting for the client's rate limit");
  if (options_.metrics != nullptr) {
    options_.metrics->Waited(request.method, timeline_.Now() - waits_since);
  }
  uint64_t refused = 0;
  for (;;) {
    Result<Credentials> credentials = credentials_.Get({deadline - timeline_.Now(), stop});
    if (!credentials.ok()) return LocalError(std::move(credentials).status());
    const Seconds left = deadline - timeline_.Now();
    if (left <= Seconds(0)) return StoppedEarly(stop, "reading credentials");
    ApiResult<HttpReply> reply = Attempt(request, *credentials, left, sink, stop);
    if (reply.ok() || !IsRefusal(reply.error())) return reply;
    if (refused != 0) return reply;
    refused = credentials->version;
    credentials_.Refuse(refused);
    const Result<Credentials> others = credentials_.Get({deadline - timeline_.Now(), stop});
    if (!others.ok() || others->version == refused) return reply;
  }
}

ApiResult<HttpReply> HttpTransport::Call(const HttpRequest& request, Repeat repeat,
                                         const CallLimits& limits) {
  const MonotonicTime deadline = Add(timeline_.Now(), limits.timeout);
  bool outcome_unknown = false;  // of any attempt so far
  const auto fail = [&](ApiError error) {
    error.outcome_unknown = error.outcome_unknown || outcome_unknown;
    return error;
  };
  for (int attempt = 1;; ++attempt) {
    if (!TakeConnectionSlot(deadline, limits.stop)) {
      return fail(StoppedEarly(limits.stop, "waiting for a connection"));
    }
    ApiResult<HttpReply> reply = Once(request, deadline, nullptr, limits.stop);
    ReturnConnectionSlot();
    if (reply.ok()) return reply;
    std::optional<Seconds> pause;
    {
      const MutexLock lock(mu_);
      pause = PauseBeforeRetry(options_.retry, attempt, reply.error(), repeat, random_);
    }
    const MonotonicTime again = Add(timeline_.Now(), pause.value_or(Seconds(0)));
    if (!pause || again >= deadline) return fail(std::move(reply).error());
    outcome_unknown = outcome_unknown || reply.error().outcome_unknown;
    if (options_.metrics != nullptr) {
      const int code = reply.error().http_status;
      options_.metrics->Retried(request.method, code == 0 ? std::nullopt : std::optional(code));
    }
    if (!timeline_.WaitUntil(again, limits.stop)) {
      return fail(StoppedEarly(limits.stop, "between two attempts"));
    }
  }
}

ApiResult<bool> HttpTransport::Stream(const HttpRequest& request, const BodySink& sink,
                                      const std::stop_token& stop) {
  {
    const MutexLock lock(mu_);
    if (watches_ >= options_.watches) {
      return LocalError(FailedPrecondition(std::to_string(watches_) +
                                           " watches are open already, as many as may be"));
    }
    ++watches_;
  }
  bool had_enough = false;
  const BodySink watching{sink.begin,
                          [&](std::string_view bytes) {
                            had_enough = !sink.take(bytes);
                            return !had_enough;
                          },
                          sink.silence};
  ApiResult<HttpReply> reply = Once(request, Add(timeline_.Now(), sink.silence), &watching, stop);
  {
    const MutexLock lock(mu_);
    --watches_;
  }
  if (reply.ok()) return true;
  if (had_enough) return false;
  return std::move(reply).error();
}

}  // namespace janus::control
