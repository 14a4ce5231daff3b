#include "operator/local/health_probe.h"

#include <httplib.h>

namespace janus::control {

bool IsHealthy(const std::string& url) {
  httplib::Client client(url);
  if (!client.is_valid()) return false;
  constexpr time_t kMicroseconds = 200'000;
  client.set_connection_timeout(0, kMicroseconds);
  client.set_read_timeout(0, kMicroseconds);
  client.set_write_timeout(0, kMicroseconds);
  const httplib::Result reply = client.Get("/health");
  return reply && reply->status == 200;
}

std::string LoopbackUrl(const std::string& url) {
  for (const auto& [any, loopback] :
       {std::pair<std::string, std::string>{"http://0.0.0.0:", "http://127.0.0.1:"},
        {"http://[::]:", "http://[::1]:"}}) {
    if (url.starts_with(any)) return loopback + url.substr(any.size());
  }
  return url;
}

}  // namespace janus::control
