// This process' store, reached over its socket by the client for API servers. The socket offers no
// watches; these use the store directly.

#include <utility>

#include "common/check.h"
#include "operator/kube/client.h"
#include "operator/local/server/object_server.h"
#include "operator/local/store/store_client.h"
#include "tests/conformance/ground.h"
#include "tests/support/kube/passing_api.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

class Served final : public PassingApi {
 public:
  Served(ClusterConfig config, LocalStore& store, const std::string& name, const Timeline& timeline)
      : PassingApi(client_), client_(std::move(config), Named(name), timeline), own_(store, name) {}

  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override {
    return own_.Watch(resource, options, deliver, stop);
  }

 private:
  static KubeClientOptions Named(const std::string& name) {
    KubeClientOptions options;
    options.name = name;
    return options;
  }

  KubeClient client_;
  StoreClient own_;
};

class ServedGround final : public Ground {
 public:
  ObjectApi& api() override { return api_; }
  ObjectApi& other_api() override { return other_; }
  std::string ns() const override { return "default"; }

 private:
  ClusterConfig Config() const {
    ClusterConfig config;
    config.origin = "the test's socket";
    config.host = std::string(kUnixHost) + path_;
    config.use_tls = false;
    return config;
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/api";
  SystemTimeline timeline_;
  LocalStore store_{{}, timeline_};
  const std::unique_ptr<ObjectServer> server_ = *ObjectServer::Create(store_, path_);
  Served api_{Config(), store_, "janus-operator", timeline_};
  Served other_{Config(), store_, "somebody-else", timeline_};
};

}  // namespace

std::unique_ptr<Ground> MakeGround() {
  return std::make_unique<ServedGround>();
}

}  // namespace janus::control
