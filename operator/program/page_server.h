#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/status.h"

namespace httplib {
class Server;
}

namespace janus::control {

struct Page {
  int status = 200;
  std::string text;
  std::string content_type = "text/plain; charset=utf-8";
};

// Serves a few pages over HTTP/1.1 to probes and scrapers. It handles one connection at a time and
// closes it after the reply, so nothing queues here. A silent client is disconnected after a
// second.
class PageServer {
 public:
  // Handlers by path. Each runs on the server's thread and must live as long as the server.
  using Pages = std::map<std::string, std::function<Page()>>;
  // For paths without a handler; the same holds for it. `host`: the header Host.
  using OtherPages = std::function<Page(const std::string& path, const std::string& host)>;

  // `address`: "host:port"; port 0: the kernel chooses. InvalidArgument: not an address.
  // Unavailable: cannot listen there.
  static Result<std::unique_ptr<PageServer>> Create(const std::string& address, const Pages& pages,
                                                    const OtherPages& others = nullptr);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // The address it listens on, with the actual port.
  const std::string& address() const { return address_; }

 private:
  PageServer();

  std::string address_;
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
