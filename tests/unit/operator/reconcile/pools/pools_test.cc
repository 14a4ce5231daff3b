#include "operator/reconcile/pools/pools.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/yaml.h"
#include "operator/reconcile/spec/read_spec.h"

namespace janus::control {
namespace {

PodSeen PodOf(const std::string& uid, int pool) {
  PodSeen out;
  out.uid = uid;
  out.pool = pool;
  return out;
}

TopologySeen RecordOf(const std::string& name, int pool, bool has_epoch) {
  TopologySeen out;
  out.record = *ParseYaml("metadata: {name: " + name + ", labels: {serving.janus.dev/pool: '" +
                              std::to_string(pool) + "'}}\n",
                          "record");
  out.topology.emplace();
  if (has_epoch) out.topology->spec.committed.emplace();
  return out;
}

ServiceObserved Seen(const std::string& spec, const std::string& status = "{}") {
  ServiceObserved out;
  out.tree = *ParseYaml(
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: chat}\n"
      "spec:\n  model: {source: {type: HostPath, hostPath: {path: /m}}}\n" +
          spec + "status: " + status + "\n",
      "service");
  return out;
}

int Wanted(const ServiceObserved& seen) {
  const SpecRead read = ReadSpec(seen.tree);
  EXPECT_FALSE(read.invalid) << read.invalid.message;
  return PoolsWanted(seen, read.service);
}

TEST(PartOf, HasThePodsAndRecordsOfItsPoolAlone) {
  ServiceObserved seen = Seen("");
  seen.pods = {PodOf("a", 1), PodOf("b", 2), PodOf("c", 1), PodOf("d", 3)};
  seen.topologies = {RecordOf("chat-x", 1, true), RecordOf("chat-x-2", 2, true)};
  const ServiceObserved part = PartOf(seen, 2);
  EXPECT_EQ(part.pool, 2);
  ASSERT_EQ(part.pods.size(), 1u);
  EXPECT_EQ(part.pods[0].uid, "b");
  EXPECT_EQ(part.other_pools.size(), 3u);
  ASSERT_EQ(part.topologies.size(), 1u);
  EXPECT_EQ(part.topologies[0].name(), "chat-x-2");
}

TEST(PartOf, HasTheCountsOfOnePool) {
  const ServiceObserved seen =
      Seen("",
           "{desiredPools: 3, roles: [{name: attention, "
           "desiredInstances: 6}, {name: experts, desiredInstances: 12}]}");
  const Node part = PartOf(seen, 1).tree;
  const Node& roles = *FindAt(part, {"status", "roles"});
  EXPECT_EQ(IntegerAt(roles.items[0], {"desiredInstances"}), 2);
  EXPECT_EQ(IntegerAt(roles.items[1], {"desiredInstances"}), 4);
}

TEST(PartOf, RemembersWhatIsOfItsPool) {
  ServiceObserved seen = Seen("");
  seen.remembered.asleep_since = MonotonicTime(std::chrono::seconds(1));
  EXPECT_EQ(PartOf(seen, 1).remembered.asleep_since, seen.remembered.asleep_since);
  EXPECT_FALSE(PartOf(seen, 2).remembered.asleep_since);
  seen.remembered.pools[2].asleep_since = MonotonicTime(std::chrono::seconds(2));
  EXPECT_EQ(PartOf(seen, 2).remembered.asleep_since, MonotonicTime(std::chrono::seconds(2)));
}

TEST(PoolsThere, AreThoseWithPodsOrAnEpoch) {
  ServiceObserved seen = Seen("");
  seen.pods = {PodOf("a", 1), PodOf("b", 4)};
  seen.topologies = {RecordOf("chat-x", 1, true), RecordOf("chat-x-2", 2, true),
                     RecordOf("chat-x-3", 3, false)};
  EXPECT_EQ(PoolsThere(seen), (std::set<int>{1, 2, 4})) << "the third has drained";
}

TEST(HasOnePool, IsNotSoWhileARecordOfAnotherIsKept) {
  ServiceObserved seen = Seen("", "{desiredPools: 1}");
  seen.pods = {PodOf("a", 1)};
  seen.topologies = {RecordOf("chat-x", 1, true)};
  EXPECT_TRUE(HasOnePool(seen));
  seen.topologies.push_back(RecordOf("chat-x-2", 2, false));
  EXPECT_FALSE(HasOnePool(seen));
}

TEST(PoolsWanted, AreThoseOfTheSpec) {
  EXPECT_EQ(Wanted(Seen("")), 1);
  EXPECT_EQ(Wanted(Seen("  pools: 3\n", "{desiredPools: 2}")), 3);
  EXPECT_EQ(Wanted(Seen("  pools: 3\n  paused: true\n", "{desiredPools: 2}")), 2);
  const std::string one =
      "{roles: [{name: attention, desiredInstances: 2}, {name: experts, desiredInstances: 2}]}";
  EXPECT_EQ(Wanted(Seen("  pools: 3\n  paused: true\n", one)), 1) << "it named no pools before";
}

TEST(PoolsWanted, FollowDecisionsWithinTheBoundsInModeSlo) {
  const std::string spec =
      "  slo: {tpot: {targetMilliseconds: 50}}\n  pools: 2\n"
      "  scaling: {maxPools: 4}\n";
  EXPECT_EQ(Wanted(Seen(spec)), 2);
  EXPECT_EQ(Wanted(Seen(spec, "{desiredPools: 3}")), 3) << "another process decided that";
  ServiceObserved seen = Seen(spec, "{desiredPools: 3}");
  for (const auto& [decided, wanted] : {std::pair{1, 2}, {4, 4}, {6, 4}}) {
    seen.remembered.scaling.wanted = InstanceCounts{12, 12, decided};
    EXPECT_EQ(Wanted(seen), wanted);
  }
}

}  // namespace
}  // namespace janus::control
