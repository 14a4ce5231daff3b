#pragma once

#include <memory>
#include <string>
#include <thread>

#include "common/status.h"
#include "operator/local/store/local_store.h"

namespace httplib {
class Server;
}

namespace janus::control {

// A LocalStore at a Unix socket, by the URLs, verbs and answers of the Kubernetes API: what one
// janusctl asks of the service that another one serves, by KubeClient (kube/client.h, host
// "unix:<path>"). Whoever may open the socket may do everything. Bodies are JSON. There are no
// watches (405), and nothing of what kubectl wants beside objects: discovery, tables. One call is
// answered after the other, each in moments, and its connection closed, so that nothing queues
// here; who says nothing is let go after a second.
class ObjectServer {
 public:
  static constexpr size_t kMaxBodyBytes = size_t{4} << 20;  // of a request

  // `store` outlives this. Unavailable: the socket cannot be made (its path has 107 bytes at most).
  static Result<std::unique_ptr<ObjectServer>> Create(LocalStore& store, const std::string& path);
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
