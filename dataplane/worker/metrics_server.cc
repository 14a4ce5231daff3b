#include "dataplane/worker/metrics_server.h"

#include <httplib.h>
#include <unistd.h>

#include <charconv>

#include "common/exposition/metrics_text.h"

namespace janus::dataplane {
namespace {

// Answers on the accepting thread.
class NoQueue final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> answer) override { answer(); }
  void shutdown() override {}
};

}  // namespace

MetricsServer::MetricsServer() : server_(std::make_unique<httplib::Server>()) {}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Create(const std::string& address,
                                                             std::function<std::string()> text,
                                                             std::function<void()> live) {
  std::unique_ptr<MetricsServer> made(new MetricsServer());
  httplib::Server& server = *made->server_;
  server.new_task_queue = [] { return new NoQueue(); };  // the server deletes it
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(1);
  server.set_write_timeout(1);
  server.set_payload_max_length(0);
  // Avoids the default SO_REUSEPORT, which would let two workers share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.Get("/metrics", [text = std::move(text)](const httplib::Request&, httplib::Response& to) {
    to.set_content(text(), kPrometheusContentType);
  });
  for (const char* const path : {"/startup", "/ready"}) {
    server.Get(path, [](const httplib::Request&, httplib::Response& to) {
      to.set_content("ok\n", "text/plain");
    });
  }
  server.Get("/live", [live = std::move(live)](const httplib::Request&, httplib::Response& to) {
    live();
    to.set_content("ok\n", "text/plain");
  });
  constexpr std::string_view kUnix = "unix:";
  const auto cannot = [&] {
    return Unavailable("metrics: cannot listen at '" + address +
                       "'; check that the address is free and its folder exists");
  };
  if (address.starts_with(kUnix)) {
    made->socket_path_ = address.substr(kUnix.size());
    server.set_address_family(AF_UNIX);
    constexpr int kIgnored = 80;
    if (!server.bind_to_port(made->socket_path_, kIgnored)) {
      made->socket_path_.clear();  // another process owns it
      return cannot();
    }
    made->address_ = address;
  } else {
    const size_t colon = address.rfind(':');
    int port = -1;
    if (colon != std::string::npos) {
      const char* end = address.data() + address.size();
      const auto [rest, error] = std::from_chars(address.data() + colon + 1, end, port);
      if (error != std::errc() || rest != end) port = -1;
    }
    if (port < 0 || port > 65535) {
      return InvalidArgument("metrics: '" + address +
                             "' is no address; want host:port or unix:/path");
    }
    std::string host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const int bound = port == 0                         ? server.bind_to_any_port(host)
                      : server.bind_to_port(host, port) ? port
                                                        : -1;
    if (bound < 0) return cannot();
    made->address_ = address.substr(0, colon + 1) + std::to_string(bound);
  }
  made->thread_ = std::jthread([&server] { server.listen_after_bind(); });
  // Wait until it runs: a server that is stopped before that would never stop.
  while (!server.is_running()) std::this_thread::yield();
  return made;
}

MetricsServer::~MetricsServer() {
  if (thread_.joinable()) {
    server_->stop();
    thread_.join();
  }
  if (!socket_path_.empty()) unlink(socket_path_.c_str());
}

}  // namespace janus::dataplane
