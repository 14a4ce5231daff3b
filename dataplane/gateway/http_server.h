#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "common/stop_signals.h"
#include "dataplane/gateway/gateway_metrics.h"
#include "dataplane/gateway/memory_budget.h"

namespace janus::gateway {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free port
  int threads = 2;
  size_t max_connections = 5120;         // further ones wait in the listen queue
  size_t max_header_bytes = 32u << 10;   // 431
  size_t max_body_bytes = 4u << 20;      // 413
  size_t max_unsent_bytes = 1u << 20;    // of one response stream; beyond it the connection is cut
  size_t free_unsent_bytes = 16u << 10;  // of these, bytes that do not count in the memory budget
  int send_buffer_bytes = 128 << 10;     // the kernel's send buffer
  Seconds idle_deadline{120};            // keep-alive without a request: closed without an answer.
                                         // Load balancers keep connections for 60 to 90 s
  Seconds read_deadline{30};             // first byte to last header, then the body: 408
  Seconds write_deadline{30};            // for one write of the gathered output; then cut
  Seconds end_deadline{0.5};             // after a cut drain, for the last bytes of all answers
};

// The parts of a request's head that handlers use; empty: the request does not have the field.
struct HttpHead {
  std::string method{};
  std::string path{};  // without the query
  std::string authorization{};
  std::string api_key{};  // x-api-key
  std::string content_encoding{};
  std::string request_id{};         // X-Request-Id
  std::string traceparent{};        // of W3C Trace Context
  std::string origin{};             // of the page that makes the request
  std::string requested_method{};   // Access-Control-Request-Method
  std::string requested_headers{};  // Access-Control-Request-Headers
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  HttpHeaders headers{};
  bool close = false;
};

// One request that is being answered. Confined to its I/O thread, except Post. The owner answers
// exactly once: either Respond, or BeginStream, Write..., EndStream. Once the client has gone they
// do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void Respond(HttpReply reply) = 0;
  virtual void BeginStream(std::string_view content_type, const HttpHeaders& headers) = 0;
  // May cut the connection if the client does not read; then the OnGone handler runs later.
  virtual void Write(std::string_view bytes) = 0;
  // `last`: bytes before the end. However many they are, they cut nothing.
  virtual void EndStream(std::string_view last) = 0;
  void EndStream() { EndStream({}); }

  // Runs when the client leaves, or is cut, before the answer is complete.
  virtual void OnGone(std::function<void()> handler) = 0;
  // Runs when the server ends before the answer is complete: the owner must complete it at once
  // with what it has. The client is still connected.
  virtual void OnEnding(std::function<void()> handler) = 0;
  // Runs once after `delay`, unless it is replaced or the answer is complete.
  virtual void SetTimer(Seconds delay, std::function<void()> handler) = 0;
  virtual void CancelTimer() = 0;

  // Thread-safe: runs on the exchange's I/O thread, in the order of the calls from one thread.
  virtual void Post(std::function<void()> work) = 0;
};

// Called on I/O threads, concurrently for different exchanges; must not block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Completes the head, and returns the headers for every answer to it, including a refusal.
  virtual HttpHeaders AnswerHeaders(HttpHead& /*head*/) { return {}; }
  // A reply refuses the request before its body is read.
  virtual std::optional<HttpReply> JudgeHead(const HttpHead& head) = 0;
  // `memory` holds the body's bytes.
  virtual void Handle(std::shared_ptr<HttpExchange> exchange, HttpHead head, std::string body,
                      MemoryLease memory) = 0;
  // The reply for a refusal by the server itself: malformed requests, limits, deadlines; 429 if the
  // memory budget has no room for the body; 503 while it ends. `path` is empty if it is not known.
  virtual HttpReply Refusal(std::string_view path, int status, std::string message) = 0;
};

// How a server ends. First it is a lame duck: it still takes connections and requests while senders
// (load balancers, rules on every node) learn that it leaves, and asks each client to use another
// connection. Then it drains: it takes no new connection, and finishes the answers that it has
// begun.
struct Departure {
  Seconds lame_duck{0};
  Seconds drain{30};
  std::function<void()> on_leaving = [] {};   // when the lame duck begins
  std::function<void()> on_draining = [] {};  // when the drain begins
};

// HTTP/1.1 on a few threads, each with its share of the connections (Boost.Beast parses).
// Thread-safe.
class HttpServer {
 public:
  // Binds and listens. Unavailable: the address is not available, with the reason. All arguments
  // must outlive the server.
  static Result<std::unique_ptr<HttpServer>> Listen(const HttpOptions& options,
                                                    HttpHandler& handler, MemoryBudget& memory,
                                                    GatewayMetrics& metrics, Logger log);
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  // Serves until a signal in `stop` arrives, then departs, and returns when the last answer is
  // sent. At the end of the drain, owners must complete their answers (OnEnding), and the server
  // has `end_deadline` to send them. A second signal ends it at once.
  virtual void Run(StopSignals& stop, Departure departure) = 0;
};

}  // namespace janus::gateway
