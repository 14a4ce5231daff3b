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

// GET /metrics over HTTP/1.1, for a scraper. One connection is answered after the other, and closed
// after its answer, so that nothing queues here; who says nothing is let go after a second.
class MetricsServer {
 public:
  // `address`: "host:port" (port 0: the kernel chooses) or "unix:/path". `text` is called for every
  // scrape, on the server's thread, and must live as long. InvalidArgument: no such address.
  // Unavailable: it cannot be bound.
  static Result<std::unique_ptr<MetricsServer>> Create(const std::string& address,
                                                       std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }

 private:
  MetricsServer();
  std::string address_;
  std::string socket_path_;  // empty: TCP
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;
};

}  // namespace janus::dataplane
