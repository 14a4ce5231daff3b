// What every ObjectApi must do alike: the real API server, and whatever stands in for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/api/field_filter.h"
#include "operator/api/json.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/informer.h"
#include "tests/conformance/ground.h"

namespace janus::control {
namespace {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const Resource kScalers{"serving.janus.dev", "v1alpha1", "moerolescalers", "MoERoleScaler", true};
const CallLimits kLimits;

class ObjectApiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ground_ = MakeGround().release(); }
  static void TearDownTestSuite() { delete ground_; }

  ObjectApi& api() { return ground_->api(); }
  std::string namespace_() const { return ground_->namespace_(); }
  // Names are of one test alone.
  ObjectKey Key(const std::string& suffix = "") const {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name() + suffix;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return {namespace_(), name};
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
  Node MustCreate(const Resource& resource, const Node& object) {
    ApiResult<Node> made = api().Create(resource, object, {}, kLimits);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *std::move(made) : Node::Map();
  }
  // The first `count` events of what happens to this test's config maps after `version`.
  std::vector<WatchEvent> Watch(const std::string& version, size_t count) {
    WatchOptions options;
    options.selection.namespace_ = namespace_();
    options.selection.label_selector = "test=" + Key().name;
    options.resource_version = version;
    options.timeout = Seconds(30);
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

  static Ground* ground_;
};
Ground* ObjectApiTest::ground_ = nullptr;

TEST_F(ObjectApiTest, ACreatedObjectIsReadBackWithItsIdentity) {
  const Node made = MustCreate(kScalers, Scaler(Key()));
  EXPECT_FALSE(UidOf(made).empty());
  EXPECT_EQ(IntegerAt(made, {"metadata", "generation"}), 1);
  const ApiResult<Node> read = api().Get(kScalers, Key(), Subresource::kNone, kLimits);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, made);
  EXPECT_EQ(KeyOf(*read), Key());
}

TEST_F(ObjectApiTest, ANameIsGivenOnce) {
  MustCreate(kConfigMaps, ConfigMap(Key()));
  const ApiResult<Node> again = api().Create(kConfigMaps, ConfigMap(Key()), {}, kLimits);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, StatusCode::kAlreadyExists);
  EXPECT_EQ(again.error().http_status, 409);
  EXPECT_FALSE(again.error().outcome_unknown);
}

TEST_F(ObjectApiTest, AGeneratedNameBeginsAsAsked) {
  Node object = ConfigMap({namespace_(), ""});
  object.fields.erase(object.fields.begin() + 2);
  SetAt(object, {"metadata", "namespace"}, Node::String(namespace_()));
  SetAt(object, {"metadata", "generateName"}, Node::String("worker-"));
  const Node made = MustCreate(kConfigMaps, object);
  EXPECT_TRUE(KeyOf(made).name.starts_with("worker-"));
  EXPECT_GT(KeyOf(made).name.size(), 7U);
}

TEST_F(ObjectApiTest, WhatIsNotThereIsNotFound) {
  for (const ApiResult<Node>& result :
       {api().Get(kConfigMaps, Key(), Subresource::kNone, kLimits),
        api().Delete(kConfigMaps, Key(), {}, kLimits),
        api().Update(kConfigMaps, ConfigMap(Key()), Subresource::kNone, {}, kLimits),
        api().Patch(kConfigMaps, Key(), PatchKind::kMerge, Node::Map(), Subresource::kNone, {},
                    kLimits)}) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, StatusCode::kNotFound) << result.status().ToString();
    EXPECT_EQ(result.error().reason, "NotFound");
  }
}

TEST_F(ObjectApiTest, AnUpdateOfAnOlderVersionIsAConflict) {
  Node mine = MustCreate(kConfigMaps, ConfigMap(Key()));
  Node theirs = mine;
  SetAt(theirs, {"data", "key"}, Node::String("theirs"));
  ASSERT_TRUE(api().Update(kConfigMaps, theirs, Subresource::kNone, {}, kLimits).ok());
  SetAt(mine, {"data", "key"}, Node::String("mine"));
  const ApiResult<Node> late = api().Update(kConfigMaps, mine, Subresource::kNone, {}, kLimits);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, StatusCode::kAborted);
  EXPECT_EQ(TextAt(*api().Get(kConfigMaps, Key(), Subresource::kNone, kLimits), {"data", "key"}),
            "theirs");
}

TEST_F(ObjectApiTest, ABadObjectIsRefusedWithTheFieldsPath) {
  const ApiResult<Node> made = api().Create(kScalers, Scaler(Key(), -1), {}, kLimits);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, StatusCode::kInvalidArgument);
  EXPECT_EQ(made.error().http_status, 422);
  ASSERT_FALSE(made.error().causes.empty());
  EXPECT_EQ(made.error().causes[0].field, "spec.replicas");
}

TEST_F(ObjectApiTest, AnUnknownFieldIsRefusedUnlessItMayBeDropped) {
  Node object = Scaler(Key());
  SetAt(object, {"spec", "nosuchfield"}, Node::Integer(1));
  const ApiResult<Node> strict = api().Create(kScalers, object, {}, kLimits);
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error().code, StatusCode::kInvalidArgument);
  const ApiResult<Node> dropped = api().Create(kScalers, object, {false, false}, kLimits);
  ASSERT_TRUE(dropped.ok()) << dropped.status().ToString();
  EXPECT_EQ(FindAt(*dropped, {"spec", "nosuchfield"}), nullptr);
}

TEST_F(ObjectApiTest, ADryRunStoresNothing) {
  EXPECT_TRUE(api().Create(kConfigMaps, ConfigMap(Key()), {true, true}, kLimits).ok());
  EXPECT_EQ(api().Get(kConfigMaps, Key(), Subresource::kNone, kLimits).error().code,
            StatusCode::kNotFound);
}

TEST_F(ObjectApiTest, AMergePatchSetsAndRemoves) {
  MustCreate(kConfigMaps, ConfigMap(Key()));
  const ApiResult<Node> patched =
      api().Patch(kConfigMaps, Key(), PatchKind::kMerge,
                  *ParseJson(R"({"data":{"key":null,"other":"two"}})", "test"), Subresource::kNone,
                  {}, kLimits);
  ASSERT_TRUE(patched.ok()) << patched.status().ToString();
  EXPECT_EQ(WriteJson(*patched->Find("data")), R"({"other":"two"})");
}

TEST_F(ObjectApiTest, AJsonPatchIsDoneWhollyOrNotAtAll) {
  MustCreate(kConfigMaps, ConfigMap(Key()));
  const auto patch = [&](const std::string& expected) {
    return api().Patch(kConfigMaps, Key(), PatchKind::kJson,
                       *ParseJson(R"([{"op":"add","path":"/data/b","value":"two"},)"
                                  R"({"op":"test","path":"/data/key","value":")" +
                                      expected + R"("}])",
                                  "test"),
                       Subresource::kNone, {}, kLimits);
  };
  const ApiResult<Node> refused = patch("other");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, StatusCode::kInvalidArgument);
  const ApiResult<Node> patched = patch("one");
  ASSERT_TRUE(patched.ok()) << patched.status().ToString();
  EXPECT_EQ(WriteJson(*patched->Find("data")), R"({"b":"two","key":"one"})");
}

TEST_F(ObjectApiTest, AnApplyCreatesChangesAndRemovesWhatItLeavesOut) {
  const auto apply = [&](const std::string& data) {
    return api().Apply(kConfigMaps, Object(kConfigMaps, Key(), R"("data":)" + data),
                       Subresource::kNone, {}, kLimits);
  };
  const ApiResult<Node> made = apply(R"({"a":"1","b":"2"})");
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const ApiResult<Node> same = apply(R"({"a":"1","b":"2"})");
  EXPECT_EQ(ResourceVersionOf(*same), ResourceVersionOf(*made));  // nothing to change
  const ApiResult<Node> changed = apply(R"({"b":"3"})");
  ASSERT_TRUE(changed.ok()) << changed.status().ToString();
  EXPECT_EQ(WriteJson(*changed->Find("data")), R"({"b":"3"})");
}

TEST_F(ObjectApiTest, StatusAndSpecAreWrittenApart) {
  Node object = MustCreate(kScalers, Scaler(Key()));
  SetAt(object, {"status", "replicas"}, Node::Integer(2));
  SetAt(object, {"spec", "replicas"}, Node::Integer(9));
  const ApiResult<Node> status = api().Update(kScalers, object, Subresource::kStatus, {}, kLimits);
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(IntegerAt(*status, {"spec", "replicas"}), 2);
  EXPECT_EQ(IntegerAt(*status, {"status", "replicas"}), 2);
  EXPECT_EQ(IntegerAt(*status, {"metadata", "generation"}), 1);
  Node next = *status;
  SetAt(next, {"status", "replicas"}, Node::Integer(5));
  SetAt(next, {"spec", "replicas"}, Node::Integer(9));
  const ApiResult<Node> spec = api().Update(kScalers, next, Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(IntegerAt(*spec, {"spec", "replicas"}), 9);
  EXPECT_EQ(IntegerAt(*spec, {"status", "replicas"}), 2);
  EXPECT_EQ(IntegerAt(*spec, {"metadata", "generation"}), 2);
}

TEST_F(ObjectApiTest, TheScaleSubresourceReadsAndWritesReplicas) {
  MustCreate(kScalers, Scaler(Key()));
  const ApiResult<Node> scale = api().Get(kScalers, Key(), Subresource::kScale, kLimits);
  ASSERT_TRUE(scale.ok()) << scale.status().ToString();
  EXPECT_EQ(TextAt(*scale, {"kind"}), "Scale");
  EXPECT_EQ(IntegerAt(*scale, {"spec", "replicas"}), 2);
  const ApiResult<Node> patched = api().Patch(kScalers, Key(), PatchKind::kMerge,
                                              *ParseJson(R"({"spec":{"replicas":4}})", "test"),
                                              Subresource::kScale, {}, kLimits);
  ASSERT_TRUE(patched.ok()) << patched.status().ToString();
  EXPECT_EQ(
      IntegerAt(*api().Get(kScalers, Key(), Subresource::kNone, kLimits), {"spec", "replicas"}), 4);
}

TEST_F(ObjectApiTest, ADeleteTakesTheObjectThatWasMeant) {
  const Node made = MustCreate(kConfigMaps, ConfigMap(Key()));
  DeleteOptions another;
  another.uid = "00000000-0000-0000-0000-000000000000";
  const ApiResult<Node> refused = api().Delete(kConfigMaps, Key(), another, kLimits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, StatusCode::kAborted);
  DeleteOptions older;
  older.resource_version = "1";
  EXPECT_EQ(api().Delete(kConfigMaps, Key(), older, kLimits).error().code, StatusCode::kAborted);
  DeleteOptions right;
  right.uid = std::string(UidOf(made));
  EXPECT_TRUE(api().Delete(kConfigMaps, Key(), right, kLimits).ok());
  EXPECT_EQ(api().Get(kConfigMaps, Key(), Subresource::kNone, kLimits).error().code,
            StatusCode::kNotFound);
}

TEST_F(ObjectApiTest, AListComesInChunksOfOneVersion) {
  for (int i = 0; i < 5; ++i) {
    MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-" + std::to_string(i)))));
  }
  MustCreate(kConfigMaps, ConfigMap(Key("-other")));
  ListOptions options;
  options.selection = {namespace_(), "test=" + Key().name, ""};
  options.limit = 2;
  std::vector<std::string> names;
  std::vector<std::string> versions;
  do {
    const ApiResult<ObjectList> chunk = api().List(kConfigMaps, options, kLimits);
    ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
    EXPECT_LE(chunk->items.size(), 2U);
    for (const Node& item : chunk->items) {
      names.push_back(KeyOf(item).name);
      EXPECT_EQ(TextAt(item, {"kind"}), "ConfigMap");
    }
    versions.push_back(chunk->resource_version);
    options.continue_token = chunk->continue_token;
  } while (!options.continue_token.empty());
  EXPECT_EQ(names.size(), 5U);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(versions, std::vector<std::string>(3, versions[0]));
}

TEST_F(ObjectApiTest, AWatchTellsAllThatHappensInOrderAndResumes) {
  ListOptions options;
  options.selection = {namespace_(), "test=" + Key().name, ""};
  const ApiResult<ObjectList> empty = api().List(kConfigMaps, options, kLimits);
  ASSERT_TRUE(empty.ok()) << empty.status().ToString();
  const Node first = MustCreate(kConfigMaps, Labelled(ConfigMap(Key())));
  Node changed = first;
  SetAt(changed, {"data", "key"}, Node::String("two"));
  ASSERT_TRUE(api().Update(kConfigMaps, changed, Subresource::kNone, {}, kLimits).ok());
  ASSERT_TRUE(api().Delete(kConfigMaps, Key(), {}, kLimits).ok());
  const Node second = MustCreate(kConfigMaps, Labelled(ConfigMap(Key())));

  const std::vector<WatchEvent> events = Watch(empty->resource_version, 4);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].type, WatchEventType::kAdded);
  EXPECT_EQ(events[1].type, WatchEventType::kModified);
  EXPECT_EQ(events[2].type, WatchEventType::kDeleted);
  EXPECT_EQ(events[3].type, WatchEventType::kAdded);
  EXPECT_EQ(TextAt(events[1].object, {"data", "key"}), "two");
  // One name, two objects.
  EXPECT_EQ(UidOf(events[2].object), UidOf(first));
  EXPECT_EQ(UidOf(events[3].object), UidOf(second));
  EXPECT_NE(UidOf(first), UidOf(second));
  // From an event on: what came after it, and nothing twice.
  const std::vector<WatchEvent> rest = Watch(std::string(ResourceVersionOf(events[1].object)), 2);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].type, WatchEventType::kDeleted);
  EXPECT_EQ(UidOf(rest[1].object), UidOf(second));
}

TEST_F(ObjectApiTest, ABookmarkTakesAWatchPastWhatItDoesNotHear) {
  ListOptions list;
  list.selection.namespace_ = namespace_();
  WatchOptions options;
  options.selection = {namespace_(), "test=" + Key().name, ""};
  options.resource_version = api().List(kConfigMaps, list, kLimits)->resource_version;
  options.timeout = Seconds(10);  // a bookmark comes about two seconds before the end
  MustCreate(kConfigMaps, Labelled(ConfigMap(Key())));
  std::string heard;
  std::string bookmark;
  const ApiResult<WatchEnd> end =
      api().Watch(kConfigMaps, options,
                  [&](const WatchEvent& event) {
                    if (event.type == WatchEventType::kBookmark) {
                      bookmark = ResourceVersionOf(event.object);
                    } else {
                      heard = ResourceVersionOf(event.object);
                      MustCreate(kConfigMaps, ConfigMap(Key("-unheard")));
                    }
                    return true;
                  },
                  {});
  ASSERT_TRUE(end.ok()) << end.status().ToString();
  EXPECT_EQ(*end, WatchEnd::kServer);
  EXPECT_FALSE(bookmark.empty());
  EXPECT_NE(bookmark, heard);
}

TEST_F(ObjectApiTest, AVersionThatIsTooOldSaysSo) {
  WatchOptions options;
  options.selection.namespace_ = namespace_();
  options.resource_version = "1";
  const ApiResult<WatchEnd> end =
      api().Watch(kScalers, options, [](const WatchEvent&) { return true; }, {});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, StatusCode::kOutOfRange) << end.status().ToString();
}

TEST_F(ObjectApiTest, AnInformerFollowsFromAListInPagesOn) {
  for (int i = 0; i < 5; ++i) {
    MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-" + std::to_string(i)))));
  }
  ReflectorOptions options;
  options.selection = {namespace_(), "test=" + Key().name, ""};
  options.page_size = 2;
  options.keep = FieldFilter({"data.key"});
  ObjectStoreOptions kept;
  kept.transform = FieldFilter({"data.key"});
  const SystemTimeline timeline;
  std::stop_source is_through;
  std::vector<ObjectKey> added;
  Informer informer(
      api(), kConfigMaps, options, kept,
      [&](const Delta& delta) {
        if (delta.type == DeltaType::kAdded) {
          added.push_back(delta.key);
          if (delta.key != Key("-4")) return;
          // Told while the list's last page is taken in: the watch must begin before this.
          MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-5"))));
          EXPECT_TRUE(api().Delete(kConfigMaps, Key("-0"), {}, kLimits).ok());
        } else if (delta.type == DeltaType::kDeleted) {
          EXPECT_EQ(delta.key, Key("-0"));
          is_through.request_stop();
        }
      },
      timeline);
  informer.Start();
  timeline.WaitUntil(timeline.Now() + std::chrono::minutes(1), is_through.get_token());
  informer.Stop();
  EXPECT_EQ(added.size(), 6U);
  EXPECT_EQ(informer.store().size(), 5U);
  EXPECT_FALSE(informer.store().Get(Key("-0")).has_value());
  EXPECT_EQ(TextAt(informer.store().Get(Key("-5")).value(), {"data", "key"}), "one");
  EXPECT_EQ(informer.statistics().pages, 3);
  EXPECT_EQ(informer.statistics().failures, 0) << informer.statistics().last_error.ToString();
}

TEST_F(ObjectApiTest, AnEventIsTakenAndItsRepeatsAreCounted) {
  Happening happening;
  happening.regarding = ReferenceTo(MustCreate(kConfigMaps, ConfigMap(Key())));
  happening.reason = "ScaledUp";
  happening.action = "Scale";
  happening.note = "experts from 2 to 4";
  EventRecorderOptions options;
  options.book.controller = "serving.janus.dev/conformance";
  options.book.instance = "conformance-0";
  options.book.series_period = Seconds(0);
  const SystemTimeline timeline;
  EventRecorder recorder(api(), options, timeline);
  for (int i = 0; i < 3; ++i) {
    recorder.Record(happening);
    recorder.Step({});
  }
  EXPECT_TRUE(recorder.statistics().last_error.ok()) << recorder.statistics().last_error.ToString();
  EXPECT_EQ(recorder.statistics().created, 1);
  EXPECT_EQ(recorder.statistics().patched, 2);
  ListOptions list;
  list.selection.namespace_ = namespace_();
  const ApiResult<ObjectList> events = api().List(EventResource(), list, kLimits);
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  std::vector<int64_t> counts;
  for (const Node& event : events->items) {
    if (TextAt(event, {"regarding", "uid"}) != happening.regarding.uid) continue;
    counts.push_back(IntegerAt(event, {"series", "count"}).value_or(1));
  }
  EXPECT_EQ(counts, std::vector<int64_t>{3});
}

}  // namespace
}  // namespace janus::control
