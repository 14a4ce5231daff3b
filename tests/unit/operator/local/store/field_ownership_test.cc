#include "operator/local/store/field_ownership.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

const TypeCursor kBuiltIn(nullptr);
const FieldManager kMe{"me", true, Subresource::kNone};
const FieldManager kOther{"other", true, Subresource::kNone};
const FieldManager kUpdater{"other", false, Subresource::kNone};

Node Read(std::string_view json) {
  Node node = *ParseJson(json, "test");
  SortFields(node);
  return node;
}
std::string Text(Node node) {
  SortFields(node);
  return WriteJson(node);
}

std::vector<std::string> Parts(std::string_view json) {
  std::vector<std::string> out;
  const Node object = Read(json);
  for (const auto& [path, value] : PartsOf(object, kBuiltIn)) out.push_back(ToText(path));
  return out;
}

// An object that several managers write in turn.
struct Scene {
  Node object = Node::Map();
  Ownership ownership;

  std::vector<std::string> Apply(const FieldManager& manager, std::string_view json) {
    const Node wanted = Read(json);
    Applied applied = ApplyFields(object, ownership, manager, wanted, kBuiltIn);
    std::vector<std::string> conflicts;
    for (const FieldConflict& one : applied.conflicts) conflicts.push_back(ToText(one.path));
    object = std::move(applied.object);
    SortFields(object);
    ownership = std::move(applied.ownership);
    return conflicts;
  }
  void Update(const FieldManager& manager, std::string_view json) {
    Node next = Read(json);
    ownership = AfterUpdate(ownership, manager, PartsOf(object, kBuiltIn), PartsOf(next, kBuiltIn));
    object = std::move(next);
  }
};
using Conflicts = std::vector<std::string>;

TEST(FieldSet, ListsWhatCanBeOwned) {
  EXPECT_EQ(Parts(R"({"apiVersion":"v1","kind":"K","metadata":{"name":"n","uid":"u",)"
                  R"("labels":{"a":"b"},"finalizers":["f"]},"spec":{"replicas":1,"args":["x"],)"
                  R"("containers":[{"name":"c","image":"i"}],"selector":{"l":"v"}}})"),
            (std::vector<std::string>{
                ".metadata.finalizers[=\"f\"]", ".metadata.labels.a", ".spec.args",
                ".spec.containers[name=\"c\"]", ".spec.containers[name=\"c\"].image",
                ".spec.containers[name=\"c\"].name", ".spec.replicas", ".spec.selector"}));
}

TEST(Apply, RemovesWhatItSaidBeforeAndLeavesOutNow) {
  Scene scene;
  scene.Apply(kMe, R"({"data":{"a":"1","b":"2"}})");
  EXPECT_EQ(scene.Apply(kMe, R"({"data":{"b":"3"}})"), Conflicts{});
  EXPECT_EQ(Text(scene.object), R"({"data":{"b":"3"}})");
  scene.Apply(kMe, R"({})");
  EXPECT_EQ(Text(scene.object), R"({})");
  EXPECT_TRUE(scene.ownership.empty());
}

TEST(Apply, LeavesWhatItNeverSaid) {
  Scene scene;
  scene.Update(kUpdater, R"({"data":{"theirs":"1"}})");
  scene.Apply(kMe, R"({"data":{"mine":"2"}})");
  scene.Apply(kMe, R"({"data":{}})");
  EXPECT_EQ(Text(scene.object), R"({"data":{"theirs":"1"}})");
}

TEST(Apply, SharesAFieldOfTheSameValueAndTheLastOneRemovesIt) {
  Scene scene;
  scene.Apply(kMe, R"({"data":{"a":"1"}})");
  EXPECT_EQ(scene.Apply(kOther, R"({"data":{"a":"1"}})"), Conflicts{});
  scene.Apply(kMe, R"({})");
  EXPECT_EQ(Text(scene.object), R"({"data":{"a":"1"}})");
  scene.Apply(kOther, R"({})");
  EXPECT_EQ(Text(scene.object), R"({})");
}

TEST(Apply, NamesTheFieldsOfOthersThatItWouldChange) {
  Scene scene;
  scene.Apply(kMe, R"({"spec":{"replicas":1,"paused":true}})");
  EXPECT_EQ(scene.Apply(kOther, R"({"spec":{"replicas":2}})"), Conflicts{".spec.replicas"});
  // Taken over: from now on the first one conflicts.
  EXPECT_EQ(scene.Apply(kMe, R"({"spec":{"replicas":1,"paused":true}})"),
            Conflicts{".spec.replicas"});
}

TEST(Apply, AnUpdateTakesWhatItChanges) {
  Scene scene;
  scene.Apply(kMe, R"({"spec":{"replicas":1,"paused":true}})");
  scene.Update(kUpdater, R"({"spec":{"replicas":5,"paused":true}})");
  scene.Apply(kMe, R"({"spec":{"paused":true}})");
  EXPECT_EQ(Text(scene.object), R"({"spec":{"paused":true,"replicas":5}})");
}

TEST(Apply, MergesKeyedListsItemByItem) {
  Scene scene;
  scene.Update(kUpdater, R"({"spec":{"containers":[{"name":"a","image":"1"}]}})");
  scene.Apply(kMe, R"({"spec":{"containers":[{"name":"a","tty":true},{"name":"b"}]}})");
  EXPECT_EQ(Text(scene.object),
            R"({"spec":{"containers":[{"image":"1","name":"a","tty":true},{"name":"b"}]}})");
  scene.Apply(kMe, R"({"spec":{"containers":[{"name":"a"}]}})");
  EXPECT_EQ(Text(scene.object), R"({"spec":{"containers":[{"image":"1","name":"a"}]}})");
  scene.Apply(kMe, R"({})");
  EXPECT_EQ(Text(scene.object), R"({"spec":{"containers":[{"image":"1","name":"a"}]}})");
}

TEST(Apply, TellsPortsApartByNumberAndProtocol) {
  Scene scene;
  scene.Apply(kMe, R"({"spec":{"ports":[{"port":80},{"port":80,"protocol":"UDP"}]}})");
  scene.Apply(kMe, R"({"spec":{"ports":[{"port":80,"protocol":"TCP","name":"http"}]}})");
  EXPECT_EQ(Text(scene.object),
            R"({"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP"}]}})");
}

TEST(Apply, ReplacesAtomicListsAndMapsAsAWhole) {
  Scene scene;
  scene.Apply(kMe, R"({"spec":{"args":["a","b"],"selector":{"x":"1","y":"2"}}})");
  EXPECT_EQ(scene.Apply(kOther, R"({"spec":{"args":["a"],"selector":{"x":"1"}}})"),
            (Conflicts{".spec.args", ".spec.selector"}));
  EXPECT_EQ(Text(scene.object), R"({"spec":{"args":["a"],"selector":{"x":"1"}}})");
}

TEST(Apply, UnitesSets) {
  Scene scene;
  scene.Apply(kMe, R"({"metadata":{"finalizers":["a"]}})");
  EXPECT_EQ(scene.Apply(kOther, R"({"metadata":{"finalizers":["b"]}})"), Conflicts{});
  scene.Apply(kMe, R"({})");
  EXPECT_EQ(Text(scene.object), R"({"metadata":{"finalizers":["b"]}})");
}

}  // namespace
}  // namespace janus::control
