#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/status.h"

namespace janus::cli {

struct HttpReply {
  int status = 0;
  std::string body;  // the body; of an error reply to PostStream its first 64 KiB
};

// A blocking HTTP connection to one endpoint, kept open between requests. Confined to one thread.
class HttpClient {
 public:
  // `url` is "http://host:port". `key` is sent with every request unless it is empty.
  // InvalidArgument: `url` is malformed.
  static Result<std::unique_ptr<HttpClient>> Create(const std::string& url, Seconds timeout,
                                                    const std::string& key = "");
  ~HttpClient();

  // Unavailable: no connection, a broken connection, or silence for longer than the timeout.
  Result<HttpReply> Get(const std::string& path);

  // Posts JSON. The bytes of a 200 reply go to `on_bytes` as they arrive, until it returns false
  // (Cancelled).
  Result<HttpReply> PostStream(const std::string& path, const std::string& json,
                               const std::function<bool(std::string_view)>& on_bytes);

 private:
  struct Connection;  // keeps the library out of this header
  explicit HttpClient(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace janus::cli
