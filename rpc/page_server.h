#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/status.h"

namespace janus {

struct Page {
  int status = 200;
  std::string text;
  std::string content_type = "text/plain; charset=utf-8";
};

// The server's certificate chain and its private key, PEM.
struct PageCertificate {
  std::string chain;
  std::string key;
};

// Which callers may read pages, and over which connection. The default: all, over plain HTTP.
struct PageAccess {
  // Called for each connection; null: plain HTTP. A new pointer replaces the certificate. If it
  // returns null, or a pair that OpenSSL refuses, the connection is closed.
  std::function<std::shared_ptr<const PageCertificate>()> certificate;
  // Called before each page with the header Authorization and the path; it may block. A page: the
  // answer instead. Null: all may read.
  std::function<std::optional<Page>(const std::string& authorization, const std::string& path)>
      refuse;
};

// Serves a few pages over HTTP/1.1 to a kubelet's probes, scrapers and browsers: GET and HEAD, one
// request per connection. Pages run one after the other on the server's thread, but no client is
// waited for: a silent or slow one delays no other. It has kSilence to send its request and
// kReading to read the answer. Beyond kMostConnections the oldest connection is closed, so
// strangers cannot keep a probe out.
class PageServer {
 public:
  static constexpr int kMostConnections = 128;
  static constexpr std::chrono::seconds kSilence{2};
  static constexpr std::chrono::seconds kReading{10};

  // By path, without the query. Each must live as long as the server.
  using Pages = std::map<std::string, std::function<Page()>>;
  // For paths without a page; the same holds for it. `host`: the header Host.
  using OtherPages = std::function<Page(const std::string& path, const std::string& host)>;

  // `address`: "host:port" (port 0: the kernel chooses), or "unix:/path", which must not exist.
  // InvalidArgument: not an address. Unavailable: cannot listen there.
  static Result<std::unique_ptr<PageServer>> Create(const std::string& address, const Pages& pages,
                                                    const OtherPages& others = nullptr,
                                                    PageAccess access = {});
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // The address it listens on, with the port that the kernel chose.
  const std::string& address() const;

 private:
  class Server;
  explicit PageServer(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace janus
