#include "operator/local/server/object_route.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

TEST(ObjectRoute, NamesCollectionsAndObjects) {
  const ApiResult<ObjectRoute> all = RouteOf("/api/v1/pods");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->resource.kind, "Pod");
  EXPECT_EQ(all->key, ObjectKey({"", ""}));

  const ApiResult<ObjectRoute> some = RouteOf("/apis/apps/v1/namespaces/prod/deployments");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->resource.kind, "Deployment");
  EXPECT_EQ(some->key, ObjectKey({"prod", ""}));

  const ApiResult<ObjectRoute> one =
      RouteOf("/apis/serving.janus.dev/v1alpha1/namespaces/prod/moeservices/chat");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->key, ObjectKey({"prod", "chat"}));
  EXPECT_EQ(one->subresource, Subresource::kNone);

  const ApiResult<ObjectRoute> scale =
      RouteOf("/apis/serving.janus.dev/v1alpha1/namespaces/prod/moerolescalers/chat/scale");
  ASSERT_TRUE(scale.ok());
  EXPECT_EQ(scale->subresource, Subresource::kScale);
  EXPECT_EQ(RouteOf("/api/v1/namespaces/prod/pods/p/status")->subresource, Subresource::kStatus);
}

TEST(ObjectRoute, ANamespaceIsAnObjectToo) {
  EXPECT_EQ(RouteOf("/api/v1/namespaces")->resource.kind, "Namespace");
  EXPECT_EQ(RouteOf("/api/v1/namespaces/prod")->key, ObjectKey({"", "prod"}));
  EXPECT_EQ(RouteOf("/api/v1/nodes/a")->key, ObjectKey({"", "a"}));
}

TEST(ObjectRoute, WhatIsNotThereIsNotFound) {
  for (const char* path :
       {"", "/", "/healthz", "/api", "/api/v1", "/api/v2/pods", "/apis/apps/v1/pods",
        "/api/v1/namespaces/prod/nodes", "/api/v1/namespaces/prod/pods/p/log",
        "/api/v1/namespaces/prod/pods/p/status/more", "/apis//v1/pods", "//api/v1/pods"}) {
    const ApiResult<ObjectRoute> route = RouteOf(path);
    ASSERT_FALSE(route.ok()) << path;
    EXPECT_EQ(route.error().http_status, 404) << path;
  }
}

}  // namespace
}  // namespace janus::control
