// From members' answers to what people read: conditions, numbers, Events, MoETopology.status. A
// service on the store in this process, in simulated time.

#include <gtest/gtest.h>

#include "operator/api/rfc3339.h"
#include "operator/kube/object.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/status/status.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

std::vector<Node> MembersSaid(SimulatedService& sim) {
  const std::vector<Node> records = sim.List(kTopologies);
  EXPECT_EQ(records.size(), 1u);
  const Node* list = FindAt(records.at(0), {"status", "instances"});
  return list == nullptr ? std::vector<Node>() : list->items;
}

// Each member of the committed epoch is recorded as serving it, in order.
void ExpectAllServe(SimulatedService& sim) {
  const TopologyRecord committed = *sim.Topology()->spec.committed;
  const std::vector<Node> said = MembersSaid(sim);
  ASSERT_EQ(said.size(), committed.instances.size());
  for (size_t i = 0; i < said.size(); ++i) {
    const TopologyInstance& one = committed.instances[i];
    EXPECT_EQ(TextAt(said[i], {"pod"}), one.node);
    EXPECT_EQ(IntegerAt(said[i], {"index"}), one.index);
    EXPECT_EQ(IntegerAt(said[i], {"epoch"}), committed.epoch);
    EXPECT_TRUE(ParseTime(TextAt(said[i], {"since"})).ok());
  }
}

TEST(Members, OfEachTheRecordSaysWhichEpochItServesAndSinceWhen) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(15));
  ExpectAllServe(sim);
  const std::string since(TextAt(MembersSaid(sim).at(0), {"since"}));
  sim.Run(Seconds(100));
  sim.RestartOperator();
  sim.Run(Seconds(20));
  ExpectAllServe(sim);
  EXPECT_EQ(TextAt(MembersSaid(sim).at(0), {"since"}), since) << "it has served all the time";
  sim.Apply(1, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(15));
  ExpectAllServe(sim);
  EXPECT_NE(TextAt(MembersSaid(sim).at(0), {"since"}), since) << "another epoch";
}

TEST(Members, OneThatServesNothingIsSaidToServeNothing) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(15));
  const PodSeen pod = sim.Pods(Role::kExperts).at(1);
  sim.workers.Of(InstanceOf(pod)).serving = 0;
  sim.Run(Seconds(15));
  const std::vector<Node> said = MembersSaid(sim);
  ASSERT_EQ(said.size(), 3u);
  for (const Node& one : said) {
    const bool is_it = TextAt(one, {"pod"}) == pod.name;
    EXPECT_EQ(IntegerAt(one, {"epoch"}).has_value(), !is_it);
    EXPECT_EQ(TextAt(one, {"since"}).empty(), is_it);
  }
}

TEST(Members, WhetherTheyAnswerIsACondition) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.Run(Seconds(0.5));
  EXPECT_EQ(sim.Condition("MetricsAvailable"), "Unknown/NotCollected");
  sim.RunUntil("MetricsAvailable");
  EXPECT_EQ(sim.Condition("MetricsAvailable"), "True/Collected");
  EXPECT_EQ(sim.op().CountEvents("MetricsUnavailable"), 0);

  const PodSeen pod = sim.Pods(Role::kExperts).at(1);
  sim.workers.Of(InstanceOf(pod)).is_hung = true;
  sim.Run(Seconds(15));
  EXPECT_EQ(sim.Condition("MetricsAvailable"), "True/Collected") << "a question may be lost";
  sim.Run(Seconds(20));
  EXPECT_EQ(sim.Condition("MetricsAvailable"), "False/MembersSilent");
  EXPECT_TRUE(Contains(sim.MessageOf("MetricsAvailable"), "experts-2"));
  EXPECT_EQ(sim.Condition("Ready"), "True/AsWanted") << "rows travel another way";
  EXPECT_EQ(sim.op().CountEvents("MetricsUnavailable"), 1);
  // A new process does not know yet, and keeps the last reported state.
  sim.RestartOperator();
  sim.Run(Seconds(3));
  EXPECT_EQ(sim.Condition("MetricsAvailable"), "False/MembersSilent");
  sim.workers.Of(InstanceOf(pod)).is_hung = false;
  sim.RunUntil("MetricsAvailable");

  sim.Patch(R"({"spec":{"suspend":true}})");
  sim.Run(Seconds(60));
  EXPECT_EQ(sim.Condition("MetricsAvailable"), "Unknown/NotCollected");
}

TEST(Members, WhatTheyCountBecomesNumbersAtTheirPace) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(65));
  const auto imbalance = [&] {
    return IntegerAt(sim.Service(), {"status", "topology", "imbalancePermille"});
  };
  const auto tokens = [&] {
    return IntegerAt(sim.Service(), {"status", "slo", "tokensPerSecond"});
  };
  EXPECT_FALSE(imbalance());
  EXPECT_FALSE(tokens());
  const Placement placement = *PlacementOf(*sim.Topology()->spec.committed);
  // All rows choose one expert of a layer: an instance with its only copy has the whole load, two
  // copies have half each.
  const uint16_t chosen = placement.at(0, 0);
  int copies = 0;
  for (int slot = 0; slot < placement.total_slots(); ++slot) {
    copies += placement.at(0, slot) == chosen;
  }
  LayerPopularity popularity{0, 1000, std::vector<uint64_t>(64)};
  popularity.tokens[chosen] = 1000;
  sim.workers.routing.popularity = {popularity};
  sim.workers.Of(InstanceOf(sim.Pods(Role::kAttention).at(0))).tokens = 6000;
  const int before = sim.workers.questions_for_popularity();
  sim.Run(Seconds(125));
  EXPECT_EQ(imbalance(), copies == 1 ? 2000 : 1000);
  EXPECT_LE(sim.workers.questions_for_popularity() - before, 3) << "once a minute";
  ASSERT_TRUE(tokens());
  // No more load: the last imbalance stays, and no tokens are generated.
  sim.Run(Seconds(185));
  EXPECT_EQ(imbalance(), copies == 1 ? 2000 : 1000);
  EXPECT_EQ(tokens(), 0);
}

TEST(Members, WhatRequestsTookIsToldAtThePercentileOfTheTargetAndNotWithoutOne) {
  SimulatedService sim;
  sim.Apply(2, 2, "  slo: {tpot: {targetMilliseconds: 100, percentile: P50}}\n");
  sim.RunUntil("Ready");
  sim.Run(Seconds(65));
  const auto told = [&](std::string_view field) {
    return IntegerAt(sim.Service(), {"status", "slo", field});
  };
  EXPECT_FALSE(told("tpotMicroseconds")) << "no request has ended";
  // Two of three requests of both instances together took 40 ms.
  auto& a = sim.workers.Of(InstanceOf(sim.Pods(Role::kAttention).at(0)));
  auto& b = sim.workers.Of(InstanceOf(sim.Pods(Role::kAttention).at(1)));
  for (int i = 0; i < 50; ++i) {
    a.tpot.Add(Seconds(0.04));
    a.tpot.Add(Seconds(0.5));
    b.tpot.Add(Seconds(0.04));
    b.ttft.Add(Seconds(1));
  }
  sim.Run(Seconds(125));
  ASSERT_TRUE(told("tpotMicroseconds"));
  EXPECT_NEAR(static_cast<double>(*told("tpotMicroseconds")), 40'000, 4'000);
  EXPECT_FALSE(told("ttftMicroseconds")) << "no target";
  sim.Patch(R"({"spec":{"slo":{"tpot":{"percentile":"P99"},"ttft":{"targetMilliseconds":5000}}}})");
  sim.Run(Seconds(125));
  EXPECT_NEAR(static_cast<double>(*told("tpotMicroseconds")), 500'000, 50'000);
  EXPECT_NEAR(static_cast<double>(told("ttftMicroseconds").value_or(0)), 1'000'000, 100'000);
  sim.Patch(R"({"spec":{"slo":null}})");
  sim.Run(Seconds(125));
  EXPECT_FALSE(told("tpotMicroseconds"));
  EXPECT_FALSE(told("ttftMicroseconds"));
}

TEST(Members, AChangeOfPlacementAndTheEndOfAPodAreTold) {
  SimulatedService sim;
  sim.Apply(1, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.op().CountEvents("PlacementChanged"), 0) << "the first is no change";
  sim.Apply(2, 2);
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.op().CountEvents("PlacementChanged"), 0) << "experts are where they were";
  sim.Apply(2, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(5));
  EXPECT_EQ(sim.op().CountEvents("PlacementChanged"), 1);
  EXPECT_EQ(sim.op().CountEvents("Drained"), 0);
  sim.Apply(1, 3);
  sim.RunUntil("Ready");
  sim.Run(Seconds(30));
  EXPECT_EQ(sim.op().CountEvents("Draining"), 1);
  EXPECT_EQ(sim.op().CountEvents("Drained"), 1);
}

}  // namespace
}  // namespace janus::control
