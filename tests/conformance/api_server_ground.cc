// A real API server with the kinds of crds/: $KUBECONFIG, and $JANUS_NAMESPACE, which must exist.

#include <cstdlib>
#include <utility>

#include "common/check.h"
#include "operator/kube/client.h"
#include "tests/conformance/ground.h"

namespace janus::control {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  JANUS_CHECK(value != nullptr, name, "is not set");
  return value;
}

class ApiServerGround final : public Ground {
 public:
  explicit ApiServerGround(const ClusterConfig& config)
      : client_(config, Named(KubeClientOptions().name), timeline_),
        other_(config, Named("somebody-else"), timeline_) {}
  ObjectApi& api() override { return client_; }
  ObjectApi& other_api() override { return other_; }
  std::string ns() const override { return Variable("JANUS_NAMESPACE"); }

 private:
  static KubeClientOptions Named(std::string name) {
    KubeClientOptions options;
    options.name = std::move(name);
    return options;
  }

  SystemTimeline timeline_;
  KubeClient client_;
  KubeClient other_;
};

}  // namespace

std::unique_ptr<Ground> MakeGround() {
  Result<ClusterConfig> config = LoadKubeconfig(Variable("KUBECONFIG"), "");
  JANUS_CHECK(config.ok(), config.status().ToString());
  return std::make_unique<ApiServerGround>(*config);
}

}  // namespace janus::control
