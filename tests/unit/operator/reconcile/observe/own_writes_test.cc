#include "operator/reconcile/observe/own_writes.h"

#include <gtest/gtest.h>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

constexpr MonotonicTime kNow{seconds(1000)};
const ObjectKey kA{"default", "a"};

Node Pod(const std::string& name, const std::string& version) {
  return Object({{"metadata", Object({{"name", Text(name)},
                                      {"namespace", Text("default")},
                                      {"uid", Text("u-" + name)},
                                      {"resourceVersion", Text(version)}})}});
}

const ObjectStore& KeepAll(const Resource&) {
  static const ObjectStore store{ObjectStoreOptions{}};
  return store;
}

std::string Newest(OwnWrites& writes, std::optional<Node> cached) {
  const auto node = writes.Newest(kPods, kA, std::move(cached));
  return node ? std::string(ResourceVersionOf(*node)) : "";
}

TEST(OwnWrites, RemembersWhatACacheKeeps) {
  ObjectStoreOptions options;
  options.transform = [](Node object) {
    SetAt(object, {"spec"}, Node::Map());
    return object;
  };
  const ObjectStore cache(options);
  OwnWrites writes([&](const Resource& resource) -> const ObjectStore& {
    EXPECT_EQ(&resource, &kPods);
    return cache;
  });
  Node pod = Pod("a", "5");
  SetAt(pod, {"spec", "nodeName"}, Text("node-a"));
  SetAt(pod, {"status", "count"}, Node::Integer(-7));
  writes.Wrote(kPods, "", pod, kNow);
  SetAt(pod, {"spec"}, Node::Map());
  EXPECT_EQ(writes.Newest(kPods, kA, std::nullopt), pod);
}

TEST(OwnWrites, ACacheThatLagsIsReadAsWeWrote) {
  OwnWrites writes(KeepAll);
  EXPECT_EQ(Newest(writes, Pod("a", "5")), "5");
  writes.Wrote(kPods, "5", Pod("a", "7"), kNow);
  EXPECT_EQ(Newest(writes, Pod("a", "5")), "7");
  writes.Wrote(kPods, "7", Pod("a", "8"), kNow);
  EXPECT_EQ(Newest(writes, Pod("a", "7")), "8") << "it shows one of ours in between";
  EXPECT_EQ(Newest(writes, Pod("a", "5")), "8");
  EXPECT_EQ(Newest(writes, Pod("a", "9")), "9") << "somebody else's";
  EXPECT_EQ(Newest(writes, Pod("a", "5")), "5") << "and from then on the cache is believed";
}

TEST(OwnWrites, WhatOthersWroteOverOursIsNotOurs) {
  OwnWrites writes(KeepAll);
  writes.Wrote(kPods, "5", Pod("a", "7"), kNow);
  writes.Wrote(kPods, "9", Pod("a", "10"), kNow);
  EXPECT_EQ(Newest(writes, Pod("a", "9")), "10");
  EXPECT_EQ(Newest(writes, Pod("a", "11")), "11");
}

TEST(OwnWrites, WhatWeMadeIsThereBeforeTheCacheShowsIt) {
  OwnWrites writes(KeepAll);
  writes.Wrote(kPods, "", Pod("a", "5"), kNow);
  EXPECT_EQ(Newest(writes, std::nullopt), "5");
  EXPECT_EQ(writes.NewestOf(kPods, {Pod("b", "1")}).size(), 2u);
  EXPECT_EQ(writes.NewestOf(kServices, {}).size(), 0u);
  EXPECT_EQ(Newest(writes, Pod("a", "6")), "6");
  EXPECT_EQ(Newest(writes, std::nullopt), "") << "shown, and gone";
}

TEST(OwnWrites, WhatWeMadeAndWroteOnIsStillOurs) {
  OwnWrites writes(KeepAll);
  writes.Wrote(kPods, "", Pod("a", "5"), kNow);
  writes.Wrote(kPods, "5", Pod("a", "6"), kNow);
  EXPECT_EQ(Newest(writes, std::nullopt), "6");
  EXPECT_EQ(Newest(writes, Pod("a", "5")), "6");
}

TEST(OwnWrites, AWriteThatChangedNothingIsNone) {
  OwnWrites writes(KeepAll);
  writes.Wrote(kPods, "5", Pod("a", "5"), kNow);
  EXPECT_EQ(Newest(writes, Pod("a", "5")), "5");
}

TEST(OwnWrites, WhatTheCacheDoesNotShowInTimeIsAskedFor) {
  OwnWrites writes(KeepAll);
  writes.Wrote(kPods, "", Pod("a", "5"), kNow);
  writes.DoubtOlderThan(kNow);
  EXPECT_TRUE(writes.unresolved().empty());
  writes.DoubtOlderThan(kNow + seconds(1));
  ASSERT_EQ(writes.unresolved().size(), 1u);
  const OwnWrites::Place place = *writes.unresolved().begin();
  writes.Resolve(place, Pod("a", "6"), kNow + seconds(2));
  EXPECT_TRUE(writes.unresolved().empty());
  EXPECT_EQ(Newest(writes, std::nullopt), "6");
  writes.Resolve(place, std::nullopt, kNow);
  EXPECT_EQ(Newest(writes, std::nullopt), "");
}

TEST(OwnWrites, ADeletionIsRememberedAsLongAsTheObjectIsShown) {
  OwnWrites writes(KeepAll);
  writes.Deleted("u-a");
  writes.ForgetDeleted({"u-a", "u-b"});
  EXPECT_TRUE(writes.IsDeleted("u-a"));
  writes.ForgetDeleted({"u-b"});
  EXPECT_FALSE(writes.IsDeleted("u-a"));
}

}  // namespace
}  // namespace janus::control
