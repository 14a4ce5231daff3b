#include "operator/kube/object_store.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/field_filter.h"
#include "operator/api/json.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

ObjectKey Key(const std::string& name) {
  return {"prod", name};
}

Node Pod(const std::string& name, const std::string& uid, const std::string& version,
         const std::string& node = "n1", const std::string& noise = "") {
  Node out = Node::Map();
  out.Add("kind", Node::String("Pod"));
  SetAt(out, {"metadata", "name"}, Node::String(name));
  SetAt(out, {"metadata", "namespace"}, Node::String("prod"));
  SetAt(out, {"metadata", "uid"}, Node::String(uid));
  SetAt(out, {"metadata", "resourceVersion"}, Node::String(version));
  SetAt(out, {"spec", "nodeName"}, Node::String(node));
  SetAt(out, {"status", "noise"}, Node::String(noise));
  return out;
}

std::string NodeOf(const Node& object) {
  return std::string(TextAt(object, {"spec", "nodeName"}));
}

// The object, or "none".
std::string Json(const Node* object) {
  return object == nullptr ? "none" : WriteJson(*object);
}
std::string Json(const std::optional<Node>& object) {
  return Json(object ? &*object : nullptr);
}

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest() : store_(Options()) {}

  static ObjectStoreOptions Options() {
    ObjectStoreOptions options;
    options.transform = FieldFilter({"spec.nodeName"});
    options.indexes = {{"node",
                        [](const Node& object) -> std::vector<std::string> {
                          return {std::string(TextAt(object, {"spec", "nodeName"}))};
                        }},
                       {"letters", [](const Node& object) {
                          std::vector<std::string> out;
                          for (const char c : KeyOf(object).name) out.emplace_back(1, c);
                          return out;
                        }}};
    return options;
  }
  // Deltas since the last call: "+a(n1)", "~a(n1>n2)", "-a(n2)".
  std::string Told() { return std::exchange(told_, ""); }
  void Hear(const Delta& delta) {
    static constexpr char kSigns[] = {'+', '~', '-'};
    told_ += kSigns[static_cast<int>(delta.type)] + delta.key.name + "(";
    if (delta.before != nullptr) told_ += NodeOf(*delta.before);
    if (delta.type == DeltaType::kModified) told_ += ">";
    if (delta.after != nullptr) told_ += NodeOf(*delta.after);
    told_ += ")";
    EXPECT_EQ(Json(store_.Get(delta.key)), Json(delta.after)) << "readers are behind";
    EXPECT_EQ(Json(delta.before), last_.contains(delta.key) ? last_[delta.key] : "none") << "(3)";
    last_[delta.key] = Json(delta.after);
  }
  auto Deliver() {
    return [this](const Delta& delta) { Hear(delta); };
  }
  void List(const std::vector<std::vector<Node>>& pages) {
    store_.BeginList();
    for (const std::vector<Node>& page : pages) store_.TakePage(page, Deliver());
    store_.EndList(Deliver());
  }
  ObjectStore::Verdict Event(WatchEventType type, Node object) {
    return store_.TakeEvent({type, std::move(object)}, Deliver());
  }
  std::string Names(std::string_view index, std::string_view value) const {
    std::string out;
    for (const Node& object : store_.Find(index, value)) out += KeyOf(object).name + " ";
    return out;
  }

  ObjectStore store_;
  std::string told_;
  std::map<ObjectKey, std::string> last_;
};
using Verdict = ObjectStore::Verdict;

TEST_F(ObjectStoreTest, Invariant1AListLeavesWhatItHeldAndNothingElse) {
  List({{Pod("a", "1", "x"), Pod("b", "2", "y")}, {Pod("c", "3", "z")}});
  EXPECT_EQ(Told(), "+a(n1)+b(n1)+c(n1)");
  Event(WatchEventType::kAdded, Pod("d", "4", "v"));
  EXPECT_EQ(Told(), "+d(n1)");
  List({{Pod("b", "2", "w", "n2")}, {Pod("c", "3", "z"), Pod("e", "5", "u")}});
  EXPECT_EQ(Told(), "~b(n1>n2)+e(n1)-a(n1)-d(n1)");
  EXPECT_EQ(store_.Keys(), (std::vector{Key("b"), Key("c"), Key("e")}));
  std::vector<ObjectKey> visited;
  store_.Visit([&](const Node& object) { visited.push_back(KeyOf(object)); });
  EXPECT_EQ(visited, store_.Keys());
}

TEST_F(ObjectStoreTest, Invariant1AListThatBreaksOffDeletesNothing) {
  List({{Pod("a", "1", "x"), Pod("b", "2", "y")}});
  Told();
  store_.BeginList();
  store_.TakePage({Pod("c", "3", "z")}, Deliver());
  EXPECT_EQ(Told(), "+c(n1)");
  EXPECT_EQ(store_.size(), 3U);
  List({{Pod("b", "2", "y")}});  // c was deleted before the list restarted
  EXPECT_EQ(Told(), "-a(n1)-c(n1)");
}

TEST_F(ObjectStoreTest, Invariant2AnotherObjectOfTheNameIsDeletedThenAdded) {
  List({{Pod("a", "1", "x"), Pod("b", "2", "y")}});
  Told();
  EXPECT_EQ(Event(WatchEventType::kModified, Pod("a", "9", "z", "n2")), Verdict::kTaken);
  EXPECT_EQ(Told(), "-a(n1)+a(n2)");
  List({{Pod("a", "9", "z", "n2"), Pod("b", "8", "v")}});
  EXPECT_EQ(Told(), "-b(n1)+b(n1)");
  // Even if it looks the same, including its version.
  List({{Pod("a", "7", "z", "n2"), Pod("b", "8", "v")}});
  EXPECT_EQ(Told(), "-a(n2)+a(n2)");
}

TEST_F(ObjectStoreTest, Invariant4WhatChangesNothingKeptIsNotTold) {
  List({{Pod("a", "1", "x")}});
  Told();
  EXPECT_EQ(Event(WatchEventType::kModified, Pod("a", "1", "x")), Verdict::kNothingNew);
  EXPECT_EQ(Event(WatchEventType::kModified, Pod("a", "1", "y", "n1", "!")), Verdict::kNothingNew);
  EXPECT_EQ(Event(WatchEventType::kDeleted, Pod("b", "2", "z")), Verdict::kNothingNew);
  EXPECT_EQ(Event(WatchEventType::kBookmark, Pod("", "", "v")), Verdict::kNothingNew);
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(Event(WatchEventType::kModified, Pod("a", "1", "z", "n3")), Verdict::kTaken);
  EXPECT_EQ(Told(), "~a(n1>n3)");
}

TEST_F(ObjectStoreTest, Invariant5AnOlderEventIsTakenWhateverItsVersionLooksLike) {
  List({{Pod("a", "1", "100", "n2")}});
  Told();
  EXPECT_EQ(Event(WatchEventType::kModified, Pod("a", "1", "99", "n1")), Verdict::kTaken);
  EXPECT_EQ(Event(WatchEventType::kModified, Pod("a", "1", "100", "n2")), Verdict::kTaken);
  EXPECT_EQ(Told(), "~a(n2>n1)~a(n1>n2)");
}

TEST_F(ObjectStoreTest, Invariant6AListOfOneNamespaceSaysNothingOfAnother) {
  const auto of = [](const std::string& ns, const std::string& name) {
    Node pod = Pod(name, ns + name, "1");
    SetAt(pod, {"metadata", "namespace"}, Node::String(ns));
    return pod;
  };
  store_.BeginList("dev");
  store_.BeginList("prod");  // both at the same time, one thread each
  store_.TakePage({of("dev", "a"), of("dev", "b")}, Deliver());
  store_.TakePage({of("prod", "a")}, Deliver());
  store_.EndList(Deliver(), "prod");
  store_.EndList(Deliver(), "dev");
  EXPECT_EQ(store_.Keys(), (std::vector<ObjectKey>{{"dev", "a"}, {"dev", "b"}, {"prod", "a"}}));
  Told();
  store_.BeginList("dev");
  store_.TakePage({of("dev", "b")}, Deliver());
  Event(WatchEventType::kAdded, of("prod", "c"));
  EXPECT_EQ(Told(), "+c(n1)");
  store_.EndList(Deliver(), "dev");
  EXPECT_EQ(Told(), "-a(n1)");
  EXPECT_EQ(store_.Keys(), (std::vector<ObjectKey>{{"dev", "b"}, {"prod", "a"}, {"prod", "c"}}));
}

TEST_F(ObjectStoreTest, ADeleteOfAnotherObjectOfTheNameAsksForAList) {
  List({{Pod("a", "1", "x")}});
  Told();
  EXPECT_EQ(Event(WatchEventType::kDeleted, Pod("a", "2", "y")), Verdict::kListAgain);
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(Event(WatchEventType::kDeleted, Pod("a", "1", "y", "n2")), Verdict::kTaken);
  EXPECT_EQ(Told(), "-a(n1)");
  EXPECT_FALSE(store_.Get(Key("a")).has_value());
}

TEST_F(ObjectStoreTest, IndexesFollowTheObjects) {
  List({{Pod("ab", "1", "x"), Pod("aab", "2", "y", "n2"), Pod("c", "3", "z")}});
  EXPECT_EQ(Names("node", "n1"), "ab c ");
  EXPECT_EQ(Names("letters", "a"), "aab ab ");
  Event(WatchEventType::kModified, Pod("c", "3", "w", "n2"));
  Event(WatchEventType::kDeleted, Pod("aab", "2", "v"));
  EXPECT_EQ(Names("node", "n1"), "ab ");
  EXPECT_EQ(Names("node", "n2"), "c ");
  EXPECT_EQ(Names("letters", "a"), "ab ");
  Event(WatchEventType::kAdded, Pod("ab", "9", "u", "n2"));
  EXPECT_EQ(Names("node", "n1"), "");
  EXPECT_EQ(Names("node", "n2"), "ab c ");
  List({{}});
  EXPECT_EQ(Names("node", "n2"), "");
  EXPECT_EQ(Names("letters", "b"), "");
}

// Lists and events in any order: store and deltas agree with the objects and with each other.
TEST_F(ObjectStoreTest, WhatWasToldAddsUpToWhatIsThere) {
  for (uint64_t run = 0; run < 100; ++run) {
    SCOPED_TRACE(run);
    std::minstd_rand random(MixSeed(TestSeed(), run));
    std::map<std::string, Node> world;
    std::map<std::string, std::vector<std::string>> by_node;
    int version = 0;
    const auto next = [&](const std::string& name, const std::string& uid) {
      return Pod(name, uid, std::to_string(++version * 7919 % 1009),
                 "n" + std::to_string(random() % 3));
    };
    for (int i = 0; i < 200; ++i) {
      const std::string name(1, static_cast<char>('a' + random() % 6));
      const auto found = world.find(name);
      const bool is_seen = random() % 5 != 0;  // otherwise a list has to find it
      Node object;
      WatchEventType type = WatchEventType::kAdded;
      if (found == world.end()) {
        object = next(name, "uid-" + std::to_string(version));
        world[name] = object;
      } else if (random() % 3 == 0) {
        type = WatchEventType::kDeleted;
        object = found->second;
        world.erase(found);
      } else {
        type = WatchEventType::kModified;
        object = next(name, std::string(UidOf(found->second)));
        found->second = object;
      }
      if (is_seen ? Event(type, object) != Verdict::kListAgain : random() % 4 != 0) continue;
      std::vector<std::vector<Node>> pages(1 + random() % 3);
      for (const auto& [key, pod] : world) pages[random() % pages.size()].push_back(pod);
      List(pages);
      ASSERT_EQ(store_.size(), world.size());
      for (const auto& [key, pod] : world) {
        ASSERT_EQ(NodeOf(store_.Get(Key(key)).value()), NodeOf(pod));
        ASSERT_EQ(Json(store_.Get(Key(key))), last_[Key(key)]);
      }
      size_t indexed = 0;
      for (const char* const node : {"n0", "n1", "n2"}) {
        for (const Node& found : store_.Find("node", node)) {
          ASSERT_EQ(NodeOf(found), node);
          ++indexed;
        }
      }
      ASSERT_EQ(indexed, world.size());
    }
    List({{}});
    EXPECT_EQ(store_.size(), 0U);
  }
}

}  // namespace
}  // namespace janus::control
