#include "operator/local/server/object_server.h"

#include <httplib.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "operator/local/server/object_calls.h"
#include "operator/local/store/store_client.h"

namespace janus::control {
namespace {

// Runs each request on the accepting thread.
class NoQueue final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> answer) override { answer(); }
  void shutdown() override {}
};

void Answer(LocalStore& store, const httplib::Request& request, httplib::Response& to) {
  const auto query = [&](std::string_view name) {
    return request.get_param_value(std::string(name).c_str());
  };
  const std::string manager = query("fieldManager");
  StoreClient api(store, manager.empty() ? "unknown" : manager);
  const ObjectReply reply =
      AnswerObjectCall(api, {request.method, request.path, request.get_header_value("Content-Type"),
                             request.body, query});
  to.status = reply.status;
  to.set_content(reply.body, "application/json");
}

}  // namespace

ObjectServer::ObjectServer(std::string path)
    : path_(std::move(path)), server_(std::make_unique<httplib::Server>()) {}

Result<std::unique_ptr<ObjectServer>> ObjectServer::Create(LocalStore& store,
                                                           const std::string& path,
                                                           const Records& records) {
  std::unique_ptr<ObjectServer> made(new ObjectServer(path));
  httplib::Server& server = *made->server_;
  server.new_task_queue = [] { return new NoQueue(); };  // the server deletes it
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(1);
  server.set_write_timeout(1);
  server.set_payload_max_length(kMaxBodyBytes);
  server.set_socket_options([](socket_t) {});  // the library's defaults are for TCP
  server.set_address_family(AF_UNIX);
  const auto answer = [&store, records](const httplib::Request& request, httplib::Response& to) {
    if (!records || request.method != "GET" || !request.path.starts_with(kRecordsPath)) {
      return Answer(store, request, to);
    }
    const ObjectReply reply = records(request.path);
    to.status = reply.status;
    to.set_content(reply.body, "application/json");
  };
  constexpr const char* kEverything = ".*";
  server.Get(kEverything, answer);
  server.Post(kEverything, answer);
  server.Put(kEverything, answer);
  server.Patch(kEverything, answer);
  server.Delete(kEverything, answer);
  constexpr int kIgnored = 80;
  if (!server.bind_to_port(path, kIgnored)) return Unavailable(path + ": cannot be listened at");
  made->thread_ = std::jthread([&server] { server.listen_after_bind(); });
  // Stopping the server before it runs has no effect, so wait.
  while (!server.is_running()) std::this_thread::yield();
  return made;
}

ObjectServer::~ObjectServer() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
  unlink(path_.c_str());
}

}  // namespace janus::control
