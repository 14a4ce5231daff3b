#include "operator/program/page_server.h"

#include <httplib.h>

#include <charconv>
#include <utility>

namespace janus::control {
namespace {

// Runs each request on the accepting thread.
class NoQueue final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> answer) override { answer(); }
  void shutdown() override {}
};

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  Address out;
  if (colon != std::string::npos && colon > 0) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, out.port);
    if (error == std::errc() && rest == end && out.port >= 0 && out.port <= 65'535) {
      out.host = text.substr(0, colon);
      if (out.host.starts_with('[') && out.host.ends_with(']')) {
        out.host = out.host.substr(1, out.host.size() - 2);
      }
      return out;
    }
  }
  return InvalidArgument("'" + text +
                         "' is not an address; want HOST:PORT, for example 0.0.0.0:8080");
}

}  // namespace

PageServer::PageServer() : server_(std::make_unique<httplib::Server>()) {}

Result<std::unique_ptr<PageServer>> PageServer::Create(const std::string& address,
                                                       const Pages& pages,
                                                       const OtherPages& others) {
  JANUS_ASSIGN_OR_RETURN(const Address at, ParseAddress(address));
  std::unique_ptr<PageServer> made(new PageServer());
  httplib::Server& server = *made->server_;
  server.new_task_queue = [] { return new NoQueue(); };  // the server deletes it
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(1);
  server.set_write_timeout(1);
  server.set_payload_max_length(0);
  // Without the default SO_REUSEPORT, with which two processes could share the port and each get
  // some of the calls.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  for (const auto& [path, page] : pages) {
    server.Get(path, [page](const httplib::Request&, httplib::Response& to) {
      const Page answer = page();
      to.status = answer.status;
      to.set_content(answer.text, answer.content_type);
    });
  }
  if (others) {
    server.Get(".*", [others](const httplib::Request& request, httplib::Response& to) {
      const Page answer = others(request.path, request.get_header_value("Host"));
      to.status = answer.status;
      to.set_content(answer.text, answer.content_type);
    });
  }
  const int bound = at.port == 0                            ? server.bind_to_any_port(at.host)
                    : server.bind_to_port(at.host, at.port) ? at.port
                                                            : -1;
  if (bound < 0)
    return Unavailable("cannot listen at '" + address + "'; check that the port is free");
  made->address_ = address.substr(0, address.rfind(':') + 1) + std::to_string(bound);
  made->thread_ = std::jthread([&server] { server.listen_after_bind(); });
  // Stopping the server before it runs has no effect, so wait.
  while (!server.is_running()) std::this_thread::yield();
  return made;
}

PageServer::~PageServer() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

}  // namespace janus::control
