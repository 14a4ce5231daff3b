// A real API server: $KUBECONFIG, and $JANUS_NAMESPACE, which is there; with the kinds of crds/.

#include <cstdlib>

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
  explicit ApiServerGround(ClusterConfig config) : client_(std::move(config), {}, timeline_) {}
  ObjectApi& api() override { return client_; }
  std::string namespace_() const override { return Variable("JANUS_NAMESPACE"); }

 private:
  SystemTimeline timeline_;
  KubeClient client_;
};

}  // namespace

std::unique_ptr<Ground> MakeGround() {
  Result<ClusterConfig> config = LoadKubeconfig(Variable("KUBECONFIG"), "");
  JANUS_CHECK(config.ok(), config.status().ToString());
  return std::make_unique<ApiServerGround>(*std::move(config));
}

}  // namespace janus::control
