#include "operator/kube/resource.h"

#include <gtest/gtest.h>

#include "operator/api/json.h"
#include "tests/support/contains.h"

namespace janus::control {
namespace {

const Resource kPods{"", "v1", "pods", "Pod", true};
const Resource kNodes{"", "v1", "nodes", "Node", false};
const Resource kServices{"serving.janus.dev", "v1alpha1", "moeservices", "MoEService", true};

TEST(Resource, PathsAreTheApis) {
  EXPECT_EQ(*CollectionPath(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(*CollectionPath(kPods, "prod"), "/api/v1/namespaces/prod/pods");
  EXPECT_EQ(*ObjectPath(kNodes, {"", "node-1"}, Subresource::kStatus),
            "/api/v1/nodes/node-1/status");
  EXPECT_EQ(*ObjectPath(kServices, {"prod", "chat"}, Subresource::kScale),
            "/apis/serving.janus.dev/v1alpha1/namespaces/prod/moeservices/chat/scale");
  EXPECT_EQ(kServices.ApiVersion(), "serving.janus.dev/v1alpha1");
  EXPECT_EQ(kServices.ToString(), "moeservices.serving.janus.dev");
}

TEST(Resource, ANameCannotLeadElsewhere) {
  EXPECT_EQ(*ObjectPath(kPods, {"a/b", "../c?d#e%"}, Subresource::kNone),
            "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd%23e%25");
  for (const char* name : {"", ".", ".."}) {
    EXPECT_EQ(ObjectPath(kPods, {"prod", name}, Subresource::kNone).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Contains(ObjectPath(kPods, {"", "a"}, Subresource::kNone).status().message(),
                       "which namespace"));
  EXPECT_TRUE(Contains(CollectionPath(kNodes, "prod").status().message(), "whole cluster"));
}

TEST(Object, FieldsAreReadAndSetByPath) {
  Node object = *ParseJson(
      R"({"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"spec":{"n":3}})",
      "test");
  EXPECT_EQ(KeyOf(object), (ObjectKey{"n", "a"}));
  EXPECT_EQ(KeyOf(object).ToString(), "n/a");
  EXPECT_EQ(UidOf(object), "u");
  EXPECT_EQ(ResourceVersionOf(object), "7");
  EXPECT_EQ(IntegerAt(object, {"spec", "n"}), 3);
  EXPECT_EQ(IntegerAt(object, {"metadata", "name"}), std::nullopt);
  EXPECT_EQ(TextAt(object, {"spec", "n", "deeper"}), "");
  SetAt(object, {"spec", "n"}, Node::Integer(4));
  SetAt(object, {"metadata", "labels", "role"}, Node::String("experts"));
  EXPECT_EQ(WriteJson(object),
            R"({"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",)"
            R"("labels":{"role":"experts"}},"spec":{"n":4}})");
}

}  // namespace
}  // namespace janus::control
