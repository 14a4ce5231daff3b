#include "operator/local/store/local_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "operator/api/json.h"
#include "operator/local/store/store_client.h"
#include "tests/support/passing_timeline.h"

namespace janus::control {
namespace {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const Resource kEvents{"events.k8s.io", "v1", "events", "Event", true};
const Resource kScalers{"serving.janus.dev", "v1alpha1", "moerolescalers", "MoERoleScaler", true};
const Resource kDeployments{"apps", "v1", "deployments", "Deployment", true};
const CallLimits kLimits;

Node Object(const Resource& resource, const std::string& name, const std::string& fields) {
  return *ParseJson(R"({"apiVersion":")" + resource.ApiVersion() + R"(","kind":")" + resource.kind +
                        R"(","metadata":{"name":")" + name + R"(","namespace":"default"},)" +
                        fields + "}",
                    "test");
}
Node ConfigMap(const std::string& name, const std::string& value = "1") {
  return Object(kConfigMaps, name, R"("data":{"key":")" + value + R"("})");
}
ObjectKey Key(const std::string& name) {
  return {"default", name};
}

LocalStoreOptions Small() {
  LocalStoreOptions options;
  options.limits.max_changes = 4;
  options.limits.max_bytes = 64 << 10;
  return options;
}

TEST(LocalStore, AWatchAndAListFromBeforeTheHistoryAreTooOld) {
  PassingTimeline timeline;
  LocalStore store(Small(), timeline);
  StoreClient client(store, "test");
  ASSERT_TRUE(client.Create(kConfigMaps, ConfigMap("a"), {}, kLimits).ok());
  ASSERT_TRUE(client.Create(kConfigMaps, ConfigMap("b"), {}, kLimits).ok());
  ListOptions list;
  list.limit = 1;
  const ApiResult<ObjectList> first = client.List(kConfigMaps, list, kLimits);
  ASSERT_TRUE(first.ok());
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(
        client
            .Update(kConfigMaps, ConfigMap("a", std::to_string(i)), Subresource::kNone, {}, kLimits)
            .ok());
  }
  list.continue_token = first->continue_token;
  const ApiResult<ObjectList> second = client.List(kConfigMaps, list, kLimits);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, StatusCode::kOutOfRange);
  EXPECT_EQ(second.error().reason, "Expired");
  WatchOptions watch;
  watch.resource_version = first->resource_version;
  const auto end = client.Watch(kConfigMaps, watch, [](const WatchEvent&) { return true; }, {});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, StatusCode::kOutOfRange);
}

TEST(LocalStore, AVersionThatIsYetToComeIsUnavailable) {
  PassingTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  ListOptions list;
  list.resource_version = "999999";
  EXPECT_EQ(client.List(kConfigMaps, list, kLimits).error().code, StatusCode::kUnavailable);
  list.resource_version = "yesterday";
  EXPECT_EQ(client.List(kConfigMaps, list, kLimits).error().code, StatusCode::kInvalidArgument);
}

TEST(LocalStore, HoldsNoMoreThanItMayAndSaysSo) {
  PassingTimeline timeline;
  LocalStore store(Small(), timeline);
  StoreClient client(store, "test");
  const std::string large(40'000, 'x');
  ASSERT_TRUE(client.Create(kConfigMaps, ConfigMap("a", large), {}, kLimits).ok());
  const ApiResult<Node> refused = client.Create(kConfigMaps, ConfigMap("b", large), {}, kLimits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, StatusCode::kUnavailable);
  EXPECT_FALSE(refused.error().outcome_unknown);
  ASSERT_TRUE(client.Delete(kConfigMaps, Key("a"), {}, kLimits).ok());
  EXPECT_TRUE(client.Create(kConfigMaps, ConfigMap("b", large), {}, kLimits).ok());
}

TEST(LocalStore, RefusesAnObjectLargerThanEtcdTakes) {
  PassingTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  const ApiResult<Node> made =
      client.Create(kConfigMaps, ConfigMap("a", std::string(2 << 20, 'x')), {}, kLimits);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().http_status, 413);
}

TEST(LocalStore, EventsExpireAfterAnHour) {
  PassingTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  ASSERT_TRUE(client.Create(kEvents, Object(kEvents, "e", R"("note":"n")"), {}, kLimits).ok());
  timeline.Advance(Seconds(3599));
  EXPECT_TRUE(client.Get(kEvents, Key("e"), Subresource::kNone, kLimits).ok());
  timeline.Advance(Seconds(2));
  EXPECT_FALSE(client.Get(kEvents, Key("e"), Subresource::kNone, kLimits).ok());
}

TEST(LocalStore, ACallThatIsStoppedDoesNothing) {
  PassingTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  std::stop_source stop;
  stop.request_stop();
  CallLimits limits;
  limits.stop = stop.get_token();
  EXPECT_EQ(client.Create(kConfigMaps, ConfigMap("a"), {}, limits).error().code,
            StatusCode::kCancelled);
  EXPECT_FALSE(client.Get(kConfigMaps, Key("a"), Subresource::kNone, kLimits).ok());
}

TEST(LocalStore, ACustomObjectIsNotUpdatedWithoutAVersion) {
  PassingTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  const Node scaler =
      Object(kScalers, "s", R"("spec":{"service":"c","role":"experts","replicas":1})");
  ASSERT_TRUE(client.Create(kScalers, scaler, {}, kLimits).ok());
  const ApiResult<Node> blind = client.Update(kScalers, scaler, Subresource::kNone, {}, kLimits);
  ASSERT_FALSE(blind.ok());
  EXPECT_EQ(blind.error().causes[0].field, "metadata.resourceVersion");
}

TEST(LocalStore, ADeploymentScalesByItsSelector) {
  PassingTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  ASSERT_TRUE(client
                  .Create(kDeployments,
                          Object(kDeployments, "d",
                                 R"("spec":{"selector":{"matchLabels":{"a":"b","c":"d"}},)"
                                 R"("template":{"metadata":{"labels":{"a":"b","c":"d"}}}})"),
                          {}, kLimits)
                  .ok());
  const ApiResult<Node> scale = client.Get(kDeployments, Key("d"), Subresource::kScale, kLimits);
  ASSERT_TRUE(scale.ok()) << scale.status().ToString();
  EXPECT_EQ(IntegerAt(*scale, {"spec", "replicas"}), 1);
  EXPECT_EQ(TextAt(*scale, {"status", "selector"}), "a=b,c=d");
}

TEST(LocalStore, AWatchThatWaitsIsWokenAndStopped) {
  SystemTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  WatchOptions options;
  options.resource_version = client.List(kConfigMaps, {}, kLimits)->resource_version;
  std::stop_source stop;
  std::vector<std::string> heard;
  ApiResult<WatchEnd> end = WatchEnd::kServer;
  {
    const std::jthread watching([&] {
      end = client.Watch(
          kConfigMaps, options,
          [&](const WatchEvent& event) {
            heard.push_back(KeyOf(event.object).name);
            if (heard.size() == 2) stop.request_stop();
            return true;
          },
          stop.get_token());
    });
    EXPECT_TRUE(client.Create(kConfigMaps, ConfigMap("a"), {}, kLimits).ok());
    EXPECT_TRUE(client.Create(kConfigMaps, ConfigMap("b"), {}, kLimits).ok());
  }
  EXPECT_EQ(heard, (std::vector<std::string>{"a", "b"}));
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, StatusCode::kCancelled);
}

// Writers race for the same few objects; the watch's events add up to the list.
TEST(LocalStore, AWatchAmongManyWritersMissesNothing) {
  constexpr int kWriters = 4;
  constexpr int kRounds = 200;
  SystemTimeline timeline;
  LocalStore store({}, timeline);
  StoreClient client(store, "test");
  WatchOptions options;
  options.resource_version = client.List(kConfigMaps, {}, kLimits)->resource_version;
  std::map<std::string, std::string> seen;
  int64_t last = 0;
  {
    const std::jthread watching([&] {
      const auto end = client.Watch(kConfigMaps, options,
                                    [&](const WatchEvent& event) {
                                      const int64_t version =
                                          std::stoll(std::string(ResourceVersionOf(event.object)));
                                      EXPECT_GT(version, last);
                                      last = version;
                                      const std::string name = KeyOf(event.object).name;
                                      if (event.type == WatchEventType::kDeleted) {
                                        seen.erase(name);
                                      } else {
                                        seen[name] = TextAt(event.object, {"data", "key"});
                                      }
                                      return name != "end";
                                    },
                                    {});
      EXPECT_TRUE(end.ok()) << end.status().ToString();
    });
    {
      std::vector<std::jthread> writers;
      for (int w = 0; w < kWriters; ++w) {
        writers.emplace_back([&, w] {
          StoreClient writer(store, "writer");
          for (int i = 0; i < kRounds; ++i) {
            const std::string name = "o" + std::to_string(i % 3);
            const Node object = ConfigMap(name, std::to_string(w * kRounds + i));
            if (writer.Create(kConfigMaps, object, {}, kLimits).ok()) continue;
            if (i % 5 == 0) {
              (void)writer.Delete(kConfigMaps, Key(name), {}, kLimits).ok();
            } else {
              (void)writer.Update(kConfigMaps, object, Subresource::kNone, {}, kLimits).ok();
            }
          }
        });
      }
    }
    EXPECT_TRUE(client.Create(kConfigMaps, ConfigMap("end"), {}, kLimits).ok());
  }
  std::map<std::string, std::string> there;
  const ApiResult<ObjectList> list = client.List(kConfigMaps, {}, kLimits);
  ASSERT_TRUE(list.ok());
  for (const Node& item : list->items) there[KeyOf(item).name] = TextAt(item, {"data", "key"});
  EXPECT_EQ(seen, there);
}

}  // namespace
}  // namespace janus::control
