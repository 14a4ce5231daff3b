// What every ObjectApi must do: a real API server, and all that stand in for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/field_filter.h"
#include "operator/kube/event_recorder.h"
#include "operator/kube/informer.h"
#include "tests/conformance/object_api_case.h"
#include "tests/support/kube/without_streams.h"
#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

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
  Node object = ConfigMap({ns(), ""});
  object.fields.erase(object.fields.begin() + 2);
  SetAt(object, {"metadata", "namespace"}, Node::String(ns()));
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
  options.selection = {ns(), "test=" + Key().name, ""};
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
  options.selection = {ns(), "test=" + Key().name, ""};
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
  // Two objects with the same name.
  EXPECT_EQ(UidOf(events[2].object), UidOf(first));
  EXPECT_EQ(UidOf(events[3].object), UidOf(second));
  EXPECT_NE(UidOf(first), UidOf(second));
  // A watch from an event on gives what came after it, and nothing twice.
  const std::vector<WatchEvent> rest = Watch(std::string(ResourceVersionOf(events[1].object)), 2);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].type, WatchEventType::kDeleted);
  EXPECT_EQ(UidOf(rest[1].object), UidOf(second));
}

TEST_F(ObjectApiTest, ABookmarkTakesAWatchPastWhatItDoesNotHear) {
  ListOptions list;
  list.selection.namespace_ = ns();
  WatchOptions options;
  options.selection = {ns(), "test=" + Key().name, ""};
  options.resource_version = api().List(kConfigMaps, list, kLimits)->resource_version;
  options.timeout = Seconds(6);  // a bookmark comes about two seconds before the end
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
  options.selection.namespace_ = ns();
  options.resource_version = "1";
  const ApiResult<WatchEnd> end =
      api().Watch(kScalers, options, [](const WatchEvent&) { return true; }, {});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, StatusCode::kOutOfRange) << end.status().ToString();
}

TEST_F(ObjectApiTest, AWatchMayTellFirstWhatIsThereAndWhereThatEnds) {
  for (const char* const suffix : {"-a", "-b", "-gone"}) {
    MustCreate(kConfigMaps, Labelled(ConfigMap(Key(suffix))));
  }
  MustCreate(kConfigMaps, ConfigMap(Key("-other")));
  ASSERT_TRUE(api().Delete(kConfigMaps, Key("-gone"), {}, kLimits).ok());
  const Node last = MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-c"))));
  const std::string newest(ResourceVersionOf(last));
  // The newest state, and a state that is at least as new as one seen before.
  for (const std::string& version : {std::string(), newest}) {
    SCOPED_TRACE(version);
    WatchOptions options;
    options.selection = {ns(), "test=" + Key().name, ""};
    options.initial_events = true;
    options.resource_version = version;
    options.timeout = Scaled(Seconds(30));
    std::vector<std::string> told;
    std::string end_version;
    const ApiResult<WatchEnd> end =
        api().Watch(kConfigMaps, options,
                    [&](const WatchEvent& event) {
                      if (event.type == WatchEventType::kBookmark) {
                        if (!event.ends_initial_events) return true;
                        told.emplace_back("end");
                        end_version = ResourceVersionOf(event.object);
                        const std::string name = "-later" + version;
                        MustCreate(kConfigMaps, Labelled(ConfigMap(Key(name))));
                        EXPECT_TRUE(api().Delete(kConfigMaps, Key(name), {}, kLimits).ok());
                        return true;
                      }
                      EXPECT_FALSE(event.ends_initial_events);
                      EXPECT_EQ(TextAt(event.object, {"data", "key"}), "one");
                      told.push_back((event.type == WatchEventType::kAdded ? "+" : "-") +
                                     KeyOf(event.object).name.substr(Key().name.size()));
                      return event.type != WatchEventType::kDeleted;
                    },
                    {});
    ASSERT_TRUE(end.ok()) << end.status().ToString();
    ASSERT_EQ(told.size(), 6U);
    std::sort(told.begin(), told.begin() + 3);  // the initial events have no order
    EXPECT_EQ(told, (std::vector<std::string>{"+-a", "+-b", "+-c", "end", "+-later" + version,
                                              "--later" + version}));
    // A watch continues where the last one ended: no event comes twice.
    const std::vector<WatchEvent> rest = Watch(end_version, 2);
    ASSERT_EQ(rest.size(), 2U);
    EXPECT_EQ(KeyOf(rest[0].object).name, Key("-later" + version).name);
    EXPECT_EQ(rest[1].type, WatchEventType::kDeleted);
  }
}

// Whether lists are streamed or come in pages.
class InformerConformanceTest : public ObjectApiTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Lists, InformerConformanceTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Streamed" : "InPages"; });

TEST_P(InformerConformanceTest, FollowsFromAListOn) {
  WithoutStreams pages(api());
  ObjectApi& server = GetParam() ? api() : pages;
  for (int i = 0; i < 5; ++i) {
    MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-" + std::to_string(i)))));
  }
  ReflectorOptions options;
  options.selection = {ns(), "test=" + Key().name, ""};
  options.page_size = 2;
  options.keep = FieldFilter({"data.key"});
  ObjectStoreOptions kept;
  kept.transform = FieldFilter({"data.key"});
  const SystemTimeline timeline;
  std::stop_source is_through;
  std::vector<ObjectKey> added;
  Informer informer(
      server, kConfigMaps, options, kept,
      [&](const Delta& delta) {
        if (delta.type == DeltaType::kAdded) {
          added.push_back(delta.key);
          if (added.size() != 5) return;
          // Done while the list's end is processed: the watch must begin before it.
          MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-5"))));
          EXPECT_TRUE(api().Delete(kConfigMaps, Key("-0"), {}, kLimits).ok());
        } else if (delta.type == DeltaType::kDeleted) {
          EXPECT_EQ(delta.key, Key("-0"));
          is_through.request_stop();
        }
      },
      timeline);
  informer.Start();
  timeline.WaitUntil(timeline.Now() + Scaled(std::chrono::minutes(1)), is_through.get_token());
  informer.Stop();
  EXPECT_EQ(added.size(), 6U);
  EXPECT_EQ(informer.store().size(), 5U);
  EXPECT_FALSE(informer.store().Get(Key("-0")).has_value());
  EXPECT_EQ(TextAt(informer.store().Get(Key("-5")).value(), {"data", "key"}), "one");
  EXPECT_EQ(informer.statistics().lists, 1);
  EXPECT_EQ(informer.statistics().streams, GetParam() ? 1 : 0);
  EXPECT_EQ(informer.statistics().pages, GetParam() ? 0 : 3);
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
  list.selection.namespace_ = ns();
  const ApiResult<ObjectList> events = api().List(EventResource(), list, kLimits);
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  std::vector<int64_t> counts;
  for (const Node& event : events->items) {
    if (TextAt(event, {"regarding", "uid"}) != happening.regarding.uid) continue;
    counts.push_back(IntegerAt(event, {"series", "count"}).value_or(1));
  }
  EXPECT_EQ(counts, std::vector<int64_t>{3});
}

TEST_F(ObjectApiTest, AnUnknownResourceIsNotFound) {
  const Resource nothing{"serving.janus.dev", "v1alpha1", "nosuchthings", "NoSuchThing", true};
  const ApiResult<Node> read = api().Get(nothing, Key(), Subresource::kNone, kLimits);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, StatusCode::kNotFound);
}

TEST_F(ObjectApiTest, ANamespaceThatIsNotThereTakesNothing) {
  const ApiResult<Node> made =
      api().Create(kConfigMaps, ConfigMap({"no-such-namespace", Key().name}), {}, kLimits);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, StatusCode::kNotFound) << made.status().ToString();
}

TEST_F(ObjectApiTest, ANameThatIsNoneIsRefused) {
  const ApiResult<Node> made =
      api().Create(kConfigMaps, ConfigMap({ns(), "Not_A_Name"}), {}, kLimits);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().http_status, 422);
  ASSERT_FALSE(made.error().causes.empty());
  EXPECT_EQ(made.error().causes[0].field, "metadata.name");
}

TEST_F(ObjectApiTest, AnUpdateThatChangesNothingMakesNoVersion) {
  const Node made = MustCreate(kConfigMaps, ConfigMap(Key()));
  const ApiResult<Node> same = api().Update(kConfigMaps, made, Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(ResourceVersionOf(*same), ResourceVersionOf(made));
}

TEST_F(ObjectApiTest, AnUpdateWithAnothersUidIsAConflict) {
  Node object = MustCreate(kConfigMaps, ConfigMap(Key()));
  SetAt(object, {"metadata", "uid"}, Node::String("00000000-0000-0000-0000-000000000000"));
  const ApiResult<Node> update = api().Update(kConfigMaps, object, Subresource::kNone, {}, kLimits);
  ASSERT_FALSE(update.ok());
  EXPECT_EQ(update.error().code, StatusCode::kAborted) << update.status().ToString();
}

TEST_F(ObjectApiTest, WhatMayNotChangeIsRefusedByPath) {
  MustCreate(kScalers, Scaler(Key()));
  const ApiResult<Node> changed = Merge(kScalers, Key(), R"({"spec":{"service":"other"}})");
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().http_status, 422);
  ASSERT_FALSE(changed.error().causes.empty());
  EXPECT_EQ(changed.error().causes[0].field, "spec.service");
}

TEST_F(ObjectApiTest, DefaultsAreReadBack) {
  const Resource services{"serving.janus.dev", "v1alpha1", "moeservices", "MoEService", true};
  const ObjectKey key{ns(), "defaults-are-read-back"};
  const Node made = MustCreate(
      services, Object(services, key,
                       R"("spec":{"model":{"source":{"type":"HuggingFace","huggingFace":)"
                       R"({"repo":"owner/name"}}},"slo":{"tpot":{"targetMilliseconds":60}}})"));
  EXPECT_EQ(TextAt(made, {"spec", "device"}), "Auto");
  EXPECT_EQ(TextAt(made, {"spec", "slo", "tpot", "percentile"}), "P95");
  EXPECT_TRUE(api().Delete(services, key, {}, kLimits).ok());
}

TEST_F(ObjectApiTest, NullIsNothing) {
  const Resource services{"serving.janus.dev", "v1alpha1", "moeservices", "MoEService", true};
  const ObjectKey key{ns(), "null-is-nothing"};
  const Node made = MustCreate(
      services, Object(services, key,
                       R"("spec":{"model":{"source":{"type":"HostPath","hostPath":{"path":"/m"},)"
                       R"("image":null},"maxModelLen":4096,"name":null},"device":null,)"
                       R"("slo":{"tpot":{"targetMilliseconds":60,"percentile":null},"ttft":null},)"
                       R"("roles":{"experts":{"nodeSelector":{"pool":"a","none":null},)"
                       R"("podTemplate":{"kept":null}}}})"));
  EXPECT_EQ(WriteJson(*FindAt(made, {"spec", "slo"})),
            R"({"tpot":{"percentile":"P95","targetMilliseconds":60}})");
  EXPECT_EQ(TextAt(made, {"spec", "device"}), "Auto");
  EXPECT_EQ(FindAt(made, {"spec", "model", "name"}), nullptr);
  EXPECT_EQ(FindAt(made, {"spec", "model", "source", "image"}), nullptr);
  EXPECT_EQ(WriteJson(*FindAt(made, {"spec", "roles", "experts", "nodeSelector"})),
            R"({"pool":"a"})");
  EXPECT_EQ(WriteJson(*FindAt(made, {"spec", "roles", "experts", "podTemplate"})),
            R"({"kept":null})");
  const ApiResult<Node> refused = api().Create(
      services,
      Object(services, {ns(), "null-is-missing"},
             R"("spec":{"model":{"source":{"type":"HostPath","hostPath":{"path":"/m"}}},)"
             R"("slo":{"tpot":{"targetMilliseconds":null}}})"),
      {}, kLimits);
  ASSERT_FALSE(refused.ok());
  ASSERT_FALSE(refused.error().causes.empty());
  EXPECT_EQ(refused.error().causes[0].field, "spec.slo.tpot.targetMilliseconds");
  EXPECT_TRUE(api().Delete(services, key, {}, kLimits).ok());
}

TEST_F(ObjectApiTest, OnlyASpecThatChangesRaisesTheGeneration) {
  MustCreate(kScalers, Scaler(Key()));
  const auto generation = [](const ApiResult<Node>& result) {
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? IntegerAt(*result, {"metadata", "generation"}) : std::nullopt;
  };
  EXPECT_EQ(generation(Merge(kScalers, Key(), R"({"metadata":{"labels":{"a":"b"}}})")), 1);
  EXPECT_EQ(generation(Merge(kScalers, Key(), R"({"status":{"replicas":7}})")), 1);
  EXPECT_EQ(generation(Merge(kScalers, Key(), R"({"spec":{"replicas":3}})")), 2);
  EXPECT_EQ(generation(Merge(kScalers, Key(), R"({"metadata":{"generation":9}})")), 2);
  const ApiResult<Node> seen =
      Merge(kScalers, Key(), R"({"status":{"observedGeneration":2}})", Subresource::kStatus);
  EXPECT_EQ(generation(seen), 2);
  EXPECT_EQ(IntegerAt(*seen, {"status", "observedGeneration"}), 2);
  EXPECT_EQ(FindAt(*seen, {"status", "replicas"}), nullptr);  // the call did not write it
}

TEST_F(ObjectApiTest, AnApplyThatWouldTakeAnothersFieldIsAConflictUnlessForced) {
  const auto apply = [&](ObjectApi& who, const std::string& data, bool force) {
    return who.Apply(kConfigMaps, Object(kConfigMaps, Key(), R"("data":)" + data),
                     Subresource::kNone, {{}, force}, kLimits);
  };
  ASSERT_TRUE(apply(api(), R"({"mine":"1","shared":"s"})", false).ok());
  // Both managers own the same value; another key has no owner yet.
  const ApiResult<Node> beside = apply(other_api(), R"({"shared":"s","theirs":"2"})", false);
  ASSERT_TRUE(beside.ok()) << beside.status().ToString();
  const ApiResult<Node> refused = apply(other_api(), R"({"mine":"3","theirs":"2"})", false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, StatusCode::kAborted);
  ASSERT_EQ(refused.error().causes.size(), 1U) << refused.status().ToString();
  EXPECT_EQ(refused.error().causes[0].reason, "FieldManagerConflict");
  EXPECT_EQ(refused.error().causes[0].field, ".data.mine");
  const ApiResult<Node> forced = apply(other_api(), R"({"mine":"3","theirs":"2"})", true);
  ASSERT_TRUE(forced.ok()) << forced.status().ToString();
  EXPECT_EQ(WriteJson(*forced->Find("data")), R"({"mine":"3","shared":"s","theirs":"2"})");
  // Fields that another manager took stay; those that only we own are removed.
  const ApiResult<Node> left = apply(api(), R"({"new":"4"})", false);
  ASSERT_TRUE(left.ok()) << left.status().ToString();
  EXPECT_EQ(WriteJson(*left->Find("data")), R"({"mine":"3","new":"4","theirs":"2"})");
}

TEST_F(ObjectApiTest, AnAppliedStatusLeavesTheSpecAlone) {
  MustCreate(kScalers, Scaler(Key()));
  const ApiResult<Node> applied =
      api().Apply(kScalers, Object(kScalers, Key(), R"("status":{"replicas":2})"),
                  Subresource::kStatus, {}, kLimits);
  ASSERT_TRUE(applied.ok()) << applied.status().ToString();
  EXPECT_EQ(IntegerAt(*applied, {"status", "replicas"}), 2);
  EXPECT_EQ(IntegerAt(*applied, {"spec", "replicas"}), 2);
  EXPECT_EQ(IntegerAt(*applied, {"metadata", "generation"}), 1);
}

TEST_F(ObjectApiTest, AFinalizerHoldsADeletedObject) {
  MustCreate(kConfigMaps, Finalized(ConfigMap(Key())));
  const ApiResult<Node> going = api().Delete(kConfigMaps, Key(), {}, kLimits);
  ASSERT_TRUE(going.ok()) << going.status().ToString();
  EXPECT_FALSE(TextAt(*going, {"metadata", "deletionTimestamp"}).empty());
  EXPECT_EQ(Find(kConfigMaps, Key()), StatusCode::kOk);
  const ApiResult<Node> late =
      Merge(kConfigMaps, Key(),
            R"({"metadata":{"finalizers":["test.janus.dev/held","test.janus.dev/b"]}})");
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().http_status, 422);
  ASSERT_TRUE(Merge(kConfigMaps, Key(), R"({"metadata":{"finalizers":null}})").ok());
  EXPECT_EQ(Find(kConfigMaps, Key()), StatusCode::kNotFound);
}

TEST_F(ObjectApiTest, ADeletedOwnerTakesItsDependentsAlong) {
  const Node owner = MustCreate(kConfigMaps, ConfigMap(Key("-owner")));
  MustCreate(kConfigMaps, Owned(ConfigMap(Key("-owned")), owner));
  ASSERT_TRUE(api().Delete(kConfigMaps, Key("-owner"), {}, kLimits).ok());
  EXPECT_EQ(Find(kConfigMaps, Key("-owner")), StatusCode::kNotFound);
  EXPECT_TRUE(IsGoneInTime(Key("-owned")));
}

TEST_F(ObjectApiTest, AnOrphanedDependentStaysWithoutItsOwner) {
  const Node owner = MustCreate(kConfigMaps, ConfigMap(Key("-owner")));
  MustCreate(kConfigMaps, Owned(ConfigMap(Key("-owned")), owner));
  DeleteOptions orphan;
  orphan.propagation = Propagation::kOrphan;
  ASSERT_TRUE(api().Delete(kConfigMaps, Key("-owner"), orphan, kLimits).ok());
  ASSERT_TRUE(IsGoneInTime(Key("-owner")));
  const ApiResult<Node> left = api().Get(kConfigMaps, Key("-owned"), Subresource::kNone, kLimits);
  ASSERT_TRUE(left.ok()) << left.status().ToString();
  EXPECT_EQ(FindAt(*left, {"metadata", "ownerReferences"}), nullptr);
}

TEST_F(ObjectApiTest, AnOwnerInTheForegroundGoesAfterWhatBlocksIt) {
  const Node owner = MustCreate(kConfigMaps, ConfigMap(Key("-owner")));
  MustCreate(kConfigMaps, Finalized(Owned(ConfigMap(Key("-owned")), owner, true)));
  DeleteOptions foreground;
  foreground.propagation = Propagation::kForeground;
  const ApiResult<Node> going = api().Delete(kConfigMaps, Key("-owner"), foreground, kLimits);
  ASSERT_TRUE(going.ok()) << going.status().ToString();
  EXPECT_FALSE(TextAt(*going, {"metadata", "deletionTimestamp"}).empty());
  EXPECT_EQ(Find(kConfigMaps, Key("-owner")), StatusCode::kOk);
  ASSERT_TRUE(Merge(kConfigMaps, Key("-owned"), R"({"metadata":{"finalizers":null}})").ok());
  EXPECT_TRUE(IsGoneInTime(Key("-owned")));
  EXPECT_TRUE(IsGoneInTime(Key("-owner")));
}

TEST_F(ObjectApiTest, AWatchHearsAnObjectEnterAndLeaveItsSelection) {
  const Node made = MustCreate(kConfigMaps, ConfigMap(Key()));
  const std::string label = R"({"metadata":{"labels":{"test":")" + Key().name + R"("}}})";
  ASSERT_TRUE(Merge(kConfigMaps, Key(), label).ok());
  ASSERT_TRUE(Merge(kConfigMaps, Key(), R"({"data":{"key":"two"}})").ok());
  ASSERT_TRUE(Merge(kConfigMaps, Key(), R"({"metadata":{"labels":null}})").ok());
  const std::vector<WatchEvent> events = Watch(std::string(ResourceVersionOf(made)), 3);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].type, WatchEventType::kAdded);
  EXPECT_EQ(events[1].type, WatchEventType::kModified);
  EXPECT_EQ(events[2].type, WatchEventType::kDeleted);
  EXPECT_EQ(Find(kConfigMaps, Key()), StatusCode::kOk);
}

TEST_F(ObjectApiTest, AListGoesOnAsItBegan) {
  for (int i = 0; i < 4; ++i) {
    MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-" + std::to_string(i)))));
  }
  ListOptions options;
  options.selection = {ns(), "test=" + Key().name, ""};
  options.limit = 2;
  const ApiResult<ObjectList> first = api().List(kConfigMaps, options, kLimits);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_TRUE(api().Delete(kConfigMaps, Key("-2"), {}, kLimits).ok());
  MustCreate(kConfigMaps, Labelled(ConfigMap(Key("-4"))));
  options.continue_token = first->continue_token;
  std::vector<ObjectKey> rest;
  // The last chunk may be empty: the server applies the selection after it has made the chunks.
  while (!options.continue_token.empty()) {
    const ApiResult<ObjectList> next = api().List(kConfigMaps, options, kLimits);
    ASSERT_TRUE(next.ok()) << next.status().ToString();
    for (const Node& item : next->items) rest.push_back(KeyOf(item));
    options.continue_token = next->continue_token;
  }
  EXPECT_EQ(rest, (std::vector<ObjectKey>{Key("-2"), Key("-3")}));
}

TEST_F(ObjectApiTest, ManagedFieldsSayWhoOwnsWhat) {
  ASSERT_TRUE(api().Apply(kConfigMaps, ConfigMap(Key()), Subresource::kNone, {}, kLimits).ok());
  const auto owner_of_key = [&] {
    const ApiResult<Node> read = api().Get(kConfigMaps, Key(), Subresource::kNone, kLimits);
    std::string owners;
    const Node* const entries = read.ok() ? FindAt(*read, {"metadata", "managedFields"}) : nullptr;
    for (const Node& entry : entries == nullptr ? std::vector<Node>() : entries->items) {
      if (FindAt(entry, {"fieldsV1", "f:data", "f:key"}) == nullptr) continue;
      owners += std::string(TextAt(entry, {"manager"})) + " " +
                std::string(TextAt(entry, {"operation"})) + ";";
    }
    return owners;
  };
  EXPECT_EQ(owner_of_key(), "janus-operator Apply;");
  ASSERT_TRUE(other_api()
                  .Patch(kConfigMaps, Key(), PatchKind::kMerge,
                         *ParseJson(R"({"data":{"key":"theirs"}})", "test"), Subresource::kNone, {},
                         kLimits)
                  .ok());
  EXPECT_EQ(owner_of_key(), "somebody-else Update;");
}

// Objects that were created can be handed over to server-side apply. The creator owns fields by
// "Update", and an apply never removes those.
TEST_F(ObjectApiTest, WhatWasCreatedMayBeHandedOverToApply) {
  MustCreate(kConfigMaps, Object(kConfigMaps, Key(), R"("data":{"kept":"1","dropped":"2"})"));
  const auto apply = [&] {
    return api().Apply(kConfigMaps, Object(kConfigMaps, Key(), R"("data":{"kept":"1"})"),
                       Subresource::kNone, {}, kLimits);
  };
  const ApiResult<Node> before = api().Get(kConfigMaps, Key(), Subresource::kNone, kLimits);
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  const Node* const entries = FindAt(*before, {"metadata", "managedFields"});
  ASSERT_TRUE(entries != nullptr && entries->items.size() == 1);
  EXPECT_EQ(TextAt(entries->items[0], {"operation"}), "Update");

  const std::string version(ResourceVersionOf(*before));
  const ApiResult<Node> handed = api().Patch(
      kConfigMaps, Key(), PatchKind::kJson,
      *ParseJson(
          R"([{"op":"replace","path":"/metadata/managedFields/0/operation","value":"Apply"},)"
          R"({"op":"replace","path":"/metadata/resourceVersion","value":")" +
              version + R"("}])",
          "test"),
      Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(handed.ok()) << handed.status().ToString();
  EXPECT_NE(ResourceVersionOf(*handed), version);
  const Node* const after = FindAt(*handed, {"metadata", "managedFields"});
  ASSERT_TRUE(after != nullptr && after->items.size() == 1) << WriteJson(*handed);
  EXPECT_EQ(TextAt(after->items[0], {"operation"}), "Apply");
  const ApiResult<Node> applied = apply();
  ASSERT_TRUE(applied.ok()) << applied.status().ToString();
  EXPECT_EQ(WriteJson(*applied->Find("data")), R"({"kept":"1"})");
}

TEST_F(ObjectApiTest, WhatWasCreatedKeepsWhatAnApplyLeavesOut) {
  MustCreate(kConfigMaps, Object(kConfigMaps, Key(), R"("data":{"kept":"1","dropped":"2"})"));
  const ApiResult<Node> applied =
      api().Apply(kConfigMaps, Object(kConfigMaps, Key(), R"("data":{"kept":"1"})"),
                  Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(applied.ok()) << applied.status().ToString();
  EXPECT_EQ(WriteJson(*applied->Find("data")), R"({"dropped":"2","kept":"1"})");
}

TEST_F(ObjectApiTest, AnUpdateThatSaysNothingOfManagedFieldsLeavesThem) {
  const Node made = MustCreate(kConfigMaps, ConfigMap(Key()));
  ASSERT_NE(FindAt(made, {"metadata", "managedFields"}), nullptr);
  const std::string was = WriteJson(*FindAt(made, {"metadata", "managedFields"}));
  const ApiResult<Node> updated =
      api().Update(kConfigMaps, ConfigMap(Key()), Subresource::kNone, {}, kLimits);
  ASSERT_TRUE(updated.ok()) << updated.status().ToString();
  EXPECT_EQ(WriteJson(*FindAt(*updated, {"metadata", "managedFields"})), was);
}

// A kubelet writes a pod's status, and labels with it. Other kinds accept only a status.
TEST_F(ObjectApiTest, APodsLabelsAreAppliedWithItsStatus) {
  const Resource pods{"", "v1", "pods", "Pod", true};
  MustCreate(pods, Object(pods, Key(), R"("spec":{"containers":[{"name":"a","image":"b"}]})"));
  const auto apply = [&](const std::string& labels) {
    Node object = Object(pods, Key(),
                         R"("status":{"conditions":[{"type":"test.janus.dev/gate",)"
                         R"("status":"True"}]})");
    SetAt(object, {"metadata", "labels"}, *ParseJson(labels, "test"));
    return api().Apply(pods, object, Subresource::kStatus, {}, kLimits);
  };
  const ApiResult<Node> labelled = apply(R"({"test":"yes"})");
  ASSERT_TRUE(labelled.ok()) << labelled.status().ToString();
  EXPECT_EQ(TextAt(*labelled, {"metadata", "labels", "test"}), "yes");
  // A label that the status manager leaves out in the next apply is removed.
  const ApiResult<Node> without = apply("{}");
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(TextAt(*without, {"metadata", "labels", "test"}), "");

  MustCreate(kScalers, Scaler(Key()));
  Node scaler = Object(kScalers, Key(), R"("status":{"replicas":2})");
  SetAt(scaler, {"metadata", "labels", "test"}, Node::String("yes"));
  const ApiResult<Node> bare = api().Apply(kScalers, scaler, Subresource::kStatus, {}, kLimits);
  ASSERT_TRUE(bare.ok()) << bare.status().ToString();
  EXPECT_EQ(TextAt(*bare, {"metadata", "labels", "test"}), "");
}

TEST_F(ObjectApiTest, ALeaseIsNotUpdatedWithoutAVersion) {
  const Resource leases{"coordination.k8s.io", "v1", "leases", "Lease", true};
  const Node lease = Object(leases, Key(), R"("spec":{"holderIdentity":"a"})");
  MustCreate(leases, lease);
  const ApiResult<Node> blind = api().Update(leases, lease, Subresource::kNone, {}, kLimits);
  ASSERT_FALSE(blind.ok());
  EXPECT_EQ(blind.error().http_status, 422);
  EXPECT_EQ(blind.error().causes[0].field, "metadata.resourceVersion");
}

TEST_F(ObjectApiTest, AnImmutableConfigMapKeepsItsData) {
  MustCreate(kConfigMaps, ConfigMap(Key()));
  ASSERT_TRUE(Merge(kConfigMaps, Key(), R"({"immutable":true})").ok());
  const ApiResult<Node> changed = Merge(kConfigMaps, Key(), R"({"data":{"key":"two"}})");
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().http_status, 422);
  EXPECT_EQ(changed.error().causes[0].field, "data");
  EXPECT_TRUE(Merge(kConfigMaps, Key(), R"({"metadata":{"labels":{"a":"b"}}})").ok());
}

// What a server adds to an object of a built-in kind, and which part must not change afterwards.
struct BuiltIn {
  const char* name;
  Resource resource;
  const char* fields;
  // Paths such as spec.ports.0.protocol, each with its JSON.
  std::vector<std::pair<std::string, std::string>> read;
  const char* refused_patch = nullptr;
};
void PrintTo(const BuiltIn& kind, std::ostream* out) {
  *out << kind.name;
}

class BuiltInTest : public ObjectApiTest, public testing::WithParamInterface<BuiltIn> {
 protected:
  static Node Sorted(Node node) {
    for (Node& item : node.items) item = Sorted(item);
    for (NodeField& field : node.fields) field.value = Sorted(field.value);
    std::sort(node.fields.begin(), node.fields.end(),
              [](const NodeField& a, const NodeField& b) { return a.name < b.name; });
    return node;
  }
  static std::string JsonAt(const Node& root, const std::string& path) {
    const Node* node = &root;
    std::istringstream steps(path);
    for (std::string step; node != nullptr && std::getline(steps, step, '.');) {
      if (node->kind == Node::Kind::kList) {
        const size_t index = std::stoul(step);
        node = index < node->items.size() ? &node->items[index] : nullptr;
      } else {
        node = node->Find(step);
      }
    }
    return node == nullptr ? "absent" : WriteJson(Sorted(*node));
  }
};

TEST_P(BuiltInTest, IsCompletedAsByAServer) {
  const BuiltIn& kind = GetParam();
  const ObjectKey key{ns(), std::string("built-in-") + kind.resource.plural};
  const Node made = MustCreate(kind.resource, Object(kind.resource, key, kind.fields));
  for (const auto& [path, json] : kind.read) EXPECT_EQ(JsonAt(made, path), json) << path;
  const ApiResult<Node> labelled =
      Merge(kind.resource, key, R"({"metadata":{"labels":{"a":"b"}}})");
  EXPECT_TRUE(labelled.ok()) << labelled.status().ToString();
  if (kind.refused_patch != nullptr) {
    const ApiResult<Node> refused = Merge(kind.resource, key, kind.refused_patch);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().http_status, 422) << refused.status().ToString();
  }
  EXPECT_TRUE(api().Delete(kind.resource, key, {}, kLimits).ok());
}

constexpr const char* kPodSpec =
    R"({"containers":[{"name":"a","image":"janus.test/busybox:1","ports":[{"containerPort":80}],)"
    R"("resources":{"limits":{"nvidia.com/gpu":"1","cpu":"2"},"requests":{"cpu":"1"}},)"
    R"("readinessProbe":{"httpGet":{"port":80}},"env":[{"name":"IP","valueFrom":{"fieldRef":)"
    R"({"fieldPath":"status.podIP"}}}]},{"name":"b","image":"janus.test/busybox"}],)"
    R"("volumes":[{"name":"v","secret":{"secretName":"s"}}]})";

std::vector<std::pair<std::string, std::string>> PodSpecAt(const std::string& spec) {
  std::vector<std::pair<std::string, std::string>> out = {
      {"restartPolicy", R"("Always")"},
      {"dnsPolicy", R"("ClusterFirst")"},
      {"schedulerName", R"("default-scheduler")"},
      {"terminationGracePeriodSeconds", "30"},
      {"securityContext", "{}"},
      {"containers.0.imagePullPolicy", R"("IfNotPresent")"},
      {"containers.1.imagePullPolicy", R"("Always")"},
      {"containers.0.terminationMessagePath", R"("/dev/termination-log")"},
      {"containers.0.terminationMessagePolicy", R"("File")"},
      {"containers.0.ports.0.protocol", R"("TCP")"},
      {"containers.1.resources", "{}"},
      {"containers.0.env.0.valueFrom.fieldRef.apiVersion", R"("v1")"},
      {"containers.0.readinessProbe",
       R"({"failureThreshold":3,"httpGet":{"path":"/","port":80,"scheme":"HTTP"},)"
       R"("periodSeconds":10,"successThreshold":1,"timeoutSeconds":1})"},
      {"volumes.0.secret.defaultMode", "420"},
  };
  for (auto& [path, json] : out) path = spec + "." + path;
  return out;
}

std::vector<std::pair<std::string, std::string>> With(
    std::vector<std::pair<std::string, std::string>> paths,
    const std::vector<std::pair<std::string, std::string>>& more) {
  paths.insert(paths.end(), more.begin(), more.end());
  return paths;
}

std::vector<BuiltIn> BuiltIns() {
  const std::string pod_spec = std::string(R"("spec":)") + kPodSpec;
  static const std::string pod = pod_spec;
  static const std::string deployment =
      R"("spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},)" +
      pod_spec + "}}";
  static const std::string job = std::string(R"("spec":{"template":{"spec":)") +
                                 R"({"restartPolicy":"Never","containers":)"
                                 R"([{"name":"a","image":"janus.test/busybox:1"}]}}})";
  return {
      {"Pod",
       {"", "v1", "pods", "Pod", true},
       pod.c_str(),
       With(PodSpecAt("spec"),
            {{"spec.enableServiceLinks", "true"},
             {"spec.containers.0.resources.requests", R"({"cpu":"1","nvidia.com/gpu":"1"})"},
             {"metadata.generation", "1"},
             {"status.phase", R"("Pending")"}}),
       R"({"spec":{"hostname":"other"}})"},
      {"Deployment",
       {"apps", "v1", "deployments", "Deployment", true},
       deployment.c_str(),
       With(PodSpecAt("spec.template.spec"),
            {{"spec.replicas", "1"},
             {"spec.revisionHistoryLimit", "10"},
             {"spec.progressDeadlineSeconds", "600"},
             {"spec.strategy", R"({"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},)"
                               R"("type":"RollingUpdate"})"},
             {"spec.template.spec.enableServiceLinks", "absent"},
             {"spec.template.spec.containers.0.resources.requests", R"({"cpu":"1"})"},
             {"metadata.generation", "1"},
             {"status", "{}"}}),
       R"({"spec":{"selector":{"matchLabels":{"a":"c"}}}})"},
      {"Job",
       {"batch", "v1", "jobs", "Job", true},
       job.c_str(),
       {{"spec.backoffLimit", "6"},
        {"spec.completions", "1"},
        {"spec.parallelism", "1"},
        {"spec.completionMode", R"("NonIndexed")"},
        {"spec.suspend", "false"},
        {"status", "{}"}},
       R"({"spec":{"completions":2}})"},
      {"Service",
       {"", "v1", "services", "Service", true},
       R"("spec":{"selector":{"a":"b"},"ports":[{"port":80}]})",
       {{"spec.type", R"("ClusterIP")"},
        {"spec.sessionAffinity", R"("None")"},
        {"spec.internalTrafficPolicy", R"("Cluster")"},
        {"spec.ipFamilies", R"(["IPv4"])"},
        {"spec.ipFamilyPolicy", R"("SingleStack")"},
        {"spec.ports.0", R"({"port":80,"protocol":"TCP","targetPort":80})"},
        {"metadata.generation", "absent"},
        {"status", R"({"loadBalancer":{}})"}},
       R"({"spec":{"clusterIP":"10.96.77.77","clusterIPs":["10.96.77.77"]}})"},
      {"Secret",
       {"", "v1", "secrets", "Secret", true},
       R"("stringData":{"b":"two"},"data":{"a":"b25l","b":"b25l"})",
       {{"type", R"("Opaque")"}, {"data", R"({"a":"b25l","b":"dHdv"})"}, {"stringData", "absent"}},
       R"({"type":"other"})"},
      {"PodDisruptionBudget",
       {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true},
       R"("spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}})",
       {{"metadata.generation", "1"},
        {"status", R"({"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,)"
                   R"("expectedPods":0})"}}},
      {"NetworkPolicy",
       {"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true},
       R"("spec":{"podSelector":{},"policyTypes":["Ingress"]})",
       {{"metadata.generation", "1"}}},
      {"Lease",
       {"coordination.k8s.io", "v1", "leases", "Lease", true},
       R"("spec":{"holderIdentity":"a","leaseDurationSeconds":15})",
       {{"metadata.generation", "absent"}}},
  };
}

INSTANTIATE_TEST_SUITE_P(All, BuiltInTest, testing::ValuesIn(BuiltIns()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace janus::control
