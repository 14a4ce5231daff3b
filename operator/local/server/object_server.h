#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "common/status.h"
#include "operator/local/server/object_calls.h"
#include "operator/local/store/local_store.h"

namespace httplib {
class Server;
}

namespace janus::control {

// Serves a LocalStore on a Unix socket with the URLs, verbs and replies of the Kubernetes API. One
// janusctl uses it through KubeClient (kube/client.h, host "unix:<path>") to reach the service that
// another janusctl runs. Access to the socket gives all rights. Bodies are JSON. It has no watches
// (405), and none of the extras that kubectl needs, such as discovery and tables. It handles one
// connection at a time and closes it after the reply, so nothing queues here. A silent client is
// disconnected after a second.
class ObjectServer {
 public:
  static constexpr size_t kMaxBodyBytes = size_t{4} << 20;  // of a request

  // Answers GET of a path that is not of the API, below kRecordsPath.
  using Records = std::function<ObjectReply(const std::string& path)>;
  static constexpr std::string_view kRecordsPath = "/v1/";

  // `store` outlives this. Unavailable: the socket cannot be made (the path limit is 107 bytes).
  static Result<std::unique_ptr<ObjectServer>> Create(LocalStore& store, const std::string& path,
                                                      const Records& records = nullptr);
  ~ObjectServer();
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

 private:
  explicit ObjectServer(std::string path);

  const std::string path_;
  std::unique_ptr<httplib::Server> server_;
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
