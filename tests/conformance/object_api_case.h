#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/json.h"
#include "tests/conformance/ground.h"
#include "tests/support/time_scale.h"

namespace janus::control {

inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
inline const Resource kScalers{"serving.janus.dev", "v1alpha1", "moerolescalers", "MoERoleScaler",
                               true};
inline const Resource kDeployments{"apps", "v1", "deployments", "Deployment", true};
inline const CallLimits kLimits;

// Shared by the cases: the API under test, objects to write there, and calls with the usual
// options.
class ObjectApiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ground_ = MakeGround().release(); }
  static void TearDownTestSuite() { delete ground_; }

  ObjectApi& api() { return ground_->api(); }
  ObjectApi& other_api() { return ground_->other_api(); }
  std::string ns() const { return ground_->ns(); }
  // A name that no other test uses.
  ObjectKey Key(const std::string& suffix = "") const {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name() + suffix;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
      return c == '/' ? '-' : static_cast<char>(std::tolower(c));
    });
    return {ns(), name};
  }
  Node Object(const Resource& resource, const ObjectKey& key, const std::string& fields) const {
    Node out = *ParseJson(R"({"apiVersion":")" + resource.ApiVersion() + R"(","kind":")" +
                              resource.kind + R"(","metadata":{"name":")" + key.name +
                              R"(","namespace":")" + key.namespace_ + R"("},)" + fields + "}",
                          "test");
    return out;
  }
  Node ConfigMap(const ObjectKey& key, const std::string& value = "one") const {
    return Object(kConfigMaps, key, R"("data":{"key":")" + value + R"("})");
  }
  Node Scaler(const ObjectKey& key, int replicas = 2) const {
    return Object(kScalers, key,
                  R"("spec":{"service":"chat","role":"experts","replicas":)" +
                      std::to_string(replicas) + "}");
  }
  // `object` with an owner. With `blocks`, it blocks the owner's deletion.
  Node Owned(Node object, const Node& owner, bool blocks = false) const {
    Node reference = Node::Map();
    for (const std::string_view field : {"apiVersion", "kind"}) {
      reference.Add(field, *owner.Find(field));
    }
    reference.Add("name", Node::String(KeyOf(owner).name));
    reference.Add("uid", Node::String(UidOf(owner)));
    if (blocks) reference.Add("blockOwnerDeletion", Node::Bool(true));
    Node list = Node::List();
    list.items.push_back(std::move(reference));
    SetAt(object, {"metadata", "ownerReferences"}, std::move(list));
    return object;
  }
  Node Finalized(Node object) const {
    Node list = Node::List();
    list.items.push_back(Node::String("test.janus.dev/held"));
    SetAt(object, {"metadata", "finalizers"}, std::move(list));
    return object;
  }
  StatusCode Find(const Resource& resource, const ObjectKey& key) {
    const ApiResult<Node> found = api().Get(resource, key, Subresource::kNone, kLimits);
    return found.ok() ? StatusCode::kOk : found.error().code;
  }
  // Waits until the config map is gone or the watch ends: a cluster's controllers need a moment.
  bool IsGoneInTime(const ObjectKey& key) {
    WatchOptions options;
    options.selection = {ns(), "", "metadata.name=" + key.name};
    options.timeout = Scaled(Seconds(30));
    const ApiResult<Node> now = api().Get(kConfigMaps, key, Subresource::kNone, kLimits);
    if (!now.ok()) return now.error().code == StatusCode::kNotFound;
    options.resource_version = ResourceVersionOf(*now);
    bool is_gone = false;
    const ApiResult<WatchEnd> end = api().Watch(kConfigMaps, options,
                                                [&](const WatchEvent& event) {
                                                  is_gone = event.type == WatchEventType::kDeleted;
                                                  return !is_gone;
                                                },
                                                {});
    EXPECT_TRUE(end.ok()) << end.status().ToString();
    return is_gone;
  }
  ApiResult<Node> Merge(const Resource& resource, const ObjectKey& key, const std::string& patch,
                        Subresource subresource = Subresource::kNone) {
    return api().Patch(resource, key, PatchKind::kMerge, *ParseJson(patch, "test"), subresource, {},
                       kLimits);
  }
  Node MustCreate(const Resource& resource, const Node& object) {
    ApiResult<Node> made = api().Create(resource, object, {}, kLimits);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *std::move(made) : Node::Map();
  }
  // "ok", or the code and the field of the first cause, if there is one: "422 spec.replicas".
  static std::string Verdict(const ApiResult<Node>& result) {
    if (result.ok()) return "ok";
    const ApiError& error = result.error();
    const std::string field = error.causes.empty() ? "" : " " + error.causes[0].field;
    return std::to_string(error.http_status) + field;
  }
  ApiResult<Node> Apply(const Resource& resource, const Node& object,
                        Subresource subresource = Subresource::kNone,
                        const ApplyOptions& options = {}) {
    return api().Apply(resource, object, subresource, options, kLimits);
  }
  ApiResult<Node> Update(const Resource& resource, const Node& object,
                         Subresource subresource = Subresource::kNone,
                         const WriteOptions& options = {}) {
    return api().Update(resource, object, subresource, options, kLimits);
  }
  Node MustGet(const Resource& resource, const ObjectKey& key) {
    ApiResult<Node> read = api().Get(resource, key, Subresource::kNone, kLimits);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return read.ok() ? *std::move(read) : Node::Map();
  }
  // A Deployment that runs nothing, with these containers and the labels {"a":"b"}.
  Node Deployment(const ObjectKey& key,
                  const std::string& containers = R"([{"name":"a","image":"x"}])") const {
    return Object(kDeployments, key,
                  R"("spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":)"
                  R"({"metadata":{"labels":{"a":"b"}},"spec":{"containers":)" +
                      containers + "}}}");
  }
  // The first `count` events of this test's config maps after `version`.
  std::vector<WatchEvent> Watch(const std::string& version, size_t count) {
    WatchOptions options;
    options.selection.namespace_ = ns();
    options.selection.label_selector = "test=" + Key().name;
    options.resource_version = version;
    options.timeout = Scaled(Seconds(30));
    std::vector<WatchEvent> events;
    const ApiResult<WatchEnd> end = api().Watch(kConfigMaps, options,
                                                [&](WatchEvent event) {
                                                  if (event.type != WatchEventType::kBookmark)
                                                    events.push_back(std::move(event));
                                                  return events.size() < count;
                                                },
                                                {});
    EXPECT_TRUE(end.ok()) << end.status().ToString();
    return events;
  }
  Node Labelled(Node object) const {
    SetAt(object, {"metadata", "labels", "test"}, Node::String(Key().name));
    return object;
  }

  static inline Ground* ground_ = nullptr;
};

}  // namespace janus::control
