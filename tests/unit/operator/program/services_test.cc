#include "operator/program/services.h"

#include <gtest/gtest.h>

#include "operator/api/yaml.h"
#include "operator/local/store/store_client.h"
#include "operator/reconcile/objects/names.h"
#include "tests/support/kube/simulated_timeline.h"

namespace janus::control {
namespace {

TEST(Services, AreThoseOfNamespacesOrOfAll) {
  SimulatedTimeline timeline;
  LocalStoreOptions options;
  options.namespaces = {"default", "prod"};
  LocalStore store(options, timeline);
  StoreClient user(store, "user");
  EXPECT_TRUE(ServicesIn(user, {})->empty());
  for (const char* ns : {"prod", "default"}) {
    const Result<Node> object = ParseYaml(
        "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: demo, "
        "namespace: " +
            std::string(ns) +
            "}\nspec:\n  model: {source: {type: Image, image: {path: /models/demo}}}\n"
            "  roles: {attention: {replicas: 1}, experts: {replicas: 2}}\n",
        "demo.yaml");
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    ASSERT_TRUE(user.Create(kMoEServices, *object, {}, {}).ok());
  }
  EXPECT_EQ(*ServicesIn(user, {}), (std::vector<std::string>{"default/demo", "prod/demo"}));
  EXPECT_EQ(*ServicesIn(user, {"prod"}), (std::vector<std::string>{"prod/demo"}));
  EXPECT_EQ(*ServicesIn(user, {"default", "prod"}), *ServicesIn(user, {}));
}

}  // namespace
}  // namespace janus::control
