#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/status.h"

namespace httplib {
class Server;
}

namespace janus::dataplane {

// GET /metrics over HTTP/1.1 for a scraper, and a kubelet's probes (api.md, ports): /startup,
// /ready and /live. /startup and /ready succeed once this runs, because a worker's readiness
// depends on no peer. It answers one connection after the other and closes each, so nothing queues
// here. A silent connection is closed after a second.
class MetricsServer {
 public:
  // `address`: "host:port" (port 0: the kernel chooses) or "unix:/path". `text` is called for every
  // scrape, and `live` for every /live, which only needs `live` to return. Both run on the server's
  // thread. InvalidArgument: no such address. Unavailable: it cannot be bound.
  static Result<std::unique_ptr<MetricsServer>> Create(const std::string& address,
                                                       std::function<std::string()> text,
                                                       std::function<void()> live);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // The address where it listens, with the port that the kernel chose.
  const std::string& address() const { return address_; }

 private:
  MetricsServer();
  std::string address_;
  std::string socket_path_;  // empty: TCP
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;
};

}  // namespace janus::dataplane
