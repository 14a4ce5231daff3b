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

// A few pages over HTTP/1.1, for probes and scrapers. One connection is answered after the other,
// and closed after its answer, so that nothing queues here; who says nothing is let go after a
// second.
class PageServer {
 public:
  // By path. Called for every request, on the server's thread; they must live as long.
  using Pages = std::map<std::string, std::function<Page()>>;

  // `address`: "host:port"; port 0: the kernel chooses. InvalidArgument: no address. Unavailable:
  // it cannot be bound.
  static Result<std::unique_ptr<PageServer>> Create(const std::string& address, const Pages& pages);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }

 private:
  PageServer();

  std::string address_;
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
