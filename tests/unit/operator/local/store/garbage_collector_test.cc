#include "operator/local/store/garbage_collector.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"
#include "operator/local/store/metadata.h"

namespace janus::control {
namespace {

class GarbageCollectorTest : public testing::Test {
 protected:
  static Tables::Place At(const std::string& name, std::string_view kind = "ConfigMap") {
    return {FindKind("v1", kind), {"n", name}};
  }
  // An object with its name as uid.
  static Node Object(const std::string& name, const std::string& metadata = "",
                     const std::string& kind = "ConfigMap", const std::string& fields = "") {
    return *ParseJson(R"({"apiVersion":"v1","kind":")" + kind + R"(","metadata":{"name":")" + name +
                          R"(","namespace":"n","uid":")" + name + R"(")" + metadata + "}" + fields +
                          "}",
                      "test");
  }
  static std::string Owner(const std::string& name, bool blocks = false) {
    return R"({"apiVersion":"v1","kind":"ConfigMap","name":")" + name + R"(","uid":")" + name +
           R"(","blockOwnerDeletion":)" + (blocks ? "true" : "false") + "}";
  }
  static std::string Owners(const std::string& list) {
    return R"(,"ownerReferences":[)" + list + "]";
  }
  static std::string Held() { return R"(,"finalizers":["test/held"])"; }

  void Put(const Node& object) { Collector().Write(At(KeyOf(object).name), object); }
  bool IsThere(const std::string& name) { return tables_.Find(At(name)) != nullptr; }
  const Node& Get(const std::string& name) { return *tables_.Find(At(name)); }
  SharedObject Delete(const std::string& name, Propagation how = Propagation::kBackground) {
    return Collector().Delete(At(name), how, std::nullopt);
  }
  void LetGo(const std::string& name) {
    Node freed = Get(name);
    RemoveFinalizer(freed, "test/held");
    Put(freed);
  }
  GarbageCollector Collector() { return {tables_, WallTime()}; }

  Tables tables_{TableLimits{}};
};

TEST_F(GarbageCollectorTest, TakesChainsOfDependentsAlong) {
  Put(Object("a"));
  Put(Object("b", Owners(Owner("a"))));
  Put(Object("c", Owners(Owner("b"))));
  EXPECT_EQ(Delete("a"), nullptr);
  EXPECT_FALSE(IsThere("b"));
  EXPECT_FALSE(IsThere("c"));
}

TEST_F(GarbageCollectorTest, DropsTheOwnerThatIsGoneOfSeveral) {
  Put(Object("a"));
  Put(Object("b"));
  Put(Object("c", Owners(Owner("a") + "," + Owner("b"))));
  Delete("a");
  ASSERT_TRUE(IsThere("c"));
  ASSERT_EQ(OwnersOf(Get("c")).size(), 1U);
  EXPECT_EQ(OwnersOf(Get("c"))[0].uid, "b");
  Delete("b");
  EXPECT_FALSE(IsThere("c"));
}

TEST_F(GarbageCollectorTest, RemovesAnObjectWhoseOwnerNeverWas) {
  Put(Object("c", Owners(Owner("nobody"))));
  EXPECT_FALSE(IsThere("c"));
}

TEST_F(GarbageCollectorTest, KeepsAnObjectWhoseOwnersKindIsUnknown) {
  Put(Object("c", Owners(R"({"apiVersion":"x/v1","kind":"Y","name":"y","uid":"y"})")));
  EXPECT_TRUE(IsThere("c"));
}

TEST_F(GarbageCollectorTest, AnOwnerOfTheSameNameIsNotTheSameOwner) {
  Put(Object("a"));
  Put(Object("c", Owners(R"({"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"old"})")));
  EXPECT_FALSE(IsThere("c"));
}

TEST_F(GarbageCollectorTest, AForegroundOwnerWaitsForWhatBlocksItAlone) {
  Put(Object("a"));
  Put(Object("b", Owners(Owner("a", true)) + Held()));
  Put(Object("c", Owners(Owner("a", false)) + Held()));
  ASSERT_NE(Delete("a", Propagation::kForeground), nullptr);
  EXPECT_TRUE(IsBeingDeleted(Get("a")));
  EXPECT_TRUE(IsBeingDeleted(Get("b")));
  EXPECT_TRUE(IsBeingDeleted(Get("c")));
  LetGo("b");
  EXPECT_FALSE(IsThere("b"));
  EXPECT_FALSE(IsThere("a"));
  EXPECT_TRUE(IsThere("c"));
  LetGo("c");
  EXPECT_FALSE(IsThere("c"));
}

TEST_F(GarbageCollectorTest, AForegroundDeletionGoesDownTheWholeChain) {
  Put(Object("a"));
  Put(Object("b", Owners(Owner("a", true))));
  Put(Object("c", Owners(Owner("b", true)) + Held()));
  Delete("a", Propagation::kForeground);
  EXPECT_TRUE(IsThere("a"));
  EXPECT_TRUE(HasFinalizer(Get("b"), kForegroundFinalizer));
  LetGo("c");
  EXPECT_FALSE(IsThere("b"));
  EXPECT_FALSE(IsThere("a"));
}

TEST_F(GarbageCollectorTest, OrphansStay) {
  Put(Object("a"));
  Put(Object("b", Owners(Owner("a"))));
  Delete("a", Propagation::kOrphan);
  EXPECT_FALSE(IsThere("a"));
  ASSERT_TRUE(IsThere("b"));
  EXPECT_TRUE(OwnersOf(Get("b")).empty());
}

TEST_F(GarbageCollectorTest, AnObjectThatOwnsItselfCanBeDeleted) {
  for (const Propagation how :
       {Propagation::kBackground, Propagation::kForeground, Propagation::kOrphan}) {
    Put(Object("a", Owners(Owner("a"))));
    ASSERT_TRUE(IsThere("a"));
    Delete("a", how);
    EXPECT_FALSE(IsThere("a"));
  }
}

TEST_F(GarbageCollectorTest, AScheduledPodHasItsGraceAndAnotherDeleteMayShortenIt) {
  const Tables::Place pod = At("p", "Pod");
  Collector().Write(pod, Object("p", "", "Pod",
                                R"(,"spec":{"nodeName":"x","terminationGracePeriodSeconds":40})"));
  const auto grace = [&] {
    return IntegerAt(*tables_.Find(pod), {"metadata", "deletionGracePeriodSeconds"});
  };
  ASSERT_NE(Collector().Delete(pod, Propagation::kBackground, std::nullopt), nullptr);
  EXPECT_EQ(grace(), 40);
  Collector().Delete(pod, Propagation::kBackground, 60);
  EXPECT_EQ(grace(), 40);
  Collector().Delete(pod, Propagation::kBackground, 5);
  EXPECT_EQ(grace(), 5);
  EXPECT_EQ(Collector().Delete(pod, Propagation::kBackground, 0), nullptr);
  EXPECT_EQ(tables_.Find(pod), nullptr);
}

TEST_F(GarbageCollectorTest, APodThatNoNodeHasGoesAtOnce) {
  const Tables::Place pod = At("p", "Pod");
  Collector().Write(pod, Object("p", "", "Pod"));
  EXPECT_EQ(Collector().Delete(pod, Propagation::kBackground, std::nullopt), nullptr);
}

TEST_F(GarbageCollectorTest, ANamespaceGoesAfterItsContents) {
  const Tables::Place place{FindKind("v1", "Namespace"), {"", "n"}};
  Node object = Object("n", "", "Namespace");
  Collector().Write(place, object);
  Put(Object("a"));
  Put(Object("b", Held()));
  const SharedObject going = Collector().Delete(place, Propagation::kBackground, std::nullopt);
  ASSERT_NE(going, nullptr);
  EXPECT_EQ(TextAt(*going, {"status", "phase"}), "Terminating");
  EXPECT_FALSE(IsThere("a"));
  EXPECT_NE(tables_.Find(place), nullptr);
  LetGo("b");
  EXPECT_EQ(tables_.Find(place), nullptr);
}

}  // namespace
}  // namespace janus::control
