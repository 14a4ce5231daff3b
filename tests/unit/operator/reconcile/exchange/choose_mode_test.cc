#include "operator/reconcile/exchange/choose_mode.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::control {
namespace {

using enum janus::ExchangeMode;

// Pods of `each` instances.
Topology TopologyOf(int attention, int experts, int each) {
  Topology topology;
  topology.max_rows_per_round = 512;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    for (int i = 0; i < (role == Role::kAttention ? attention : experts); ++i) {
      Instance one;
      one.role = role;
      one.index = i % each;
      one.node = (role == Role::kAttention ? "a" : "e") + std::to_string(i / each);
      one.domain = one.node;
      one.address = "10.0." + one.node + ":" + std::to_string(9000 + 10 * one.index);
      (role == Role::kAttention ? topology.attention : topology.experts).push_back(one);
    }
  }
  return topology;
}

PlannedService Planned() {
  PlannedService planned;
  planned.model.hidden = 512;
  planned.model.dtype = DType::kBFloat16;
  planned.model.moe.top_k = 4;
  planned.plan.max_batch_size = 128;
  planned.plan.effective.mode = kTwoPhaseParallel;
  return planned;
}

// All pairs of nodes of `topology` have this link.
LinksReported Reported(const Topology& topology, const MeasuredLink& link) {
  LinksReported out;
  out.has_answer = true;
  for (const Instance& a : topology.attention) {
    for (const Instance& e : topology.experts) out.links[{a.node, e.node}] = link;
  }
  return out;
}

constexpr MeasuredLink kSlow = {3e-4, 22.5e6, 2e-5};  // 180 Mbit/s

TEST(ChooseMode, SaysWithWhichFiguresAndAgainstWhat) {
  const Topology topology = TopologyOf(4, 4, 2);
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 8;
  const ChosenMode chosen = ChooseMode(topology, Planned(), reported, std::nullopt, false);
  EXPECT_TRUE(Contains(chosen.why, "ms a round, ")) << chosen.why;
  EXPECT_TRUE(Contains(chosen.why, "measured 180 Mbit/s, 0.3 ms and 20 us a message"))
      << chosen.why;
  EXPECT_TRUE(Contains(chosen.why, "8 rows of an instance")) << chosen.why;
  for (const char* mode : {"Direct", "TwoPhaseSingle", "TwoPhaseParallel"}) {
    EXPECT_TRUE(Contains(chosen.why, mode)) << chosen.why;
  }
  EXPECT_LE(chosen.why.size(), kMostWhy);
}

TEST(ChooseMode, CountsOnlyNeededRowsIfTheGateIsOnAttention) {
  Topology topology = TopologyOf(2, 8, 2);
  topology.placement.layers = 1;
  for (uint16_t e = 0; e < 8; ++e) {
    topology.experts[e].slots = 8;
    topology.placement.slots_of_instance.push_back(8);
    for (uint16_t i = 0; i < 8; ++i) {
      topology.placement.expert_of.push_back(static_cast<uint16_t>(8 * e + i));
    }
  }
  PlannedService planned = Planned();
  planned.model.moe.experts = 64;
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 64;
  const auto first_figure = [&] {
    const std::string why = ChooseMode(topology, planned, reported, kDirect, true).why;
    return std::stod(why.substr(why.find(": ") + 2));
  };
  const double all = first_figure();
  topology.gate = janus::GateSide::kAttention;
  EXPECT_LT(first_figure(), all);
}

TEST(ChooseMode, HoldsTheDefaultWithoutMeasuredLinks) {
  const Topology topology = TopologyOf(4, 4, 2);
  LinksReported none;
  EXPECT_EQ(ChooseMode(topology, Planned(), none, std::nullopt, false).mode, kTwoPhaseParallel);
  none.has_answer = true;
  none.not_measured = "a0 to e1: its answers took too long";
  const ChosenMode chosen = ChooseMode(topology, Planned(), none, kTwoPhaseParallel, false);
  EXPECT_EQ(chosen.mode, kTwoPhaseParallel);
  EXPECT_TRUE(Contains(chosen.why, none.not_measured)) << chosen.why;
  EXPECT_EQ(ChooseMode(topology, Planned(), none, kDirect, true).mode, kDirect)
      << "no epoch for that alone";
  EXPECT_EQ(ChooseMode(topology, Planned(), none, kDirect, false).mode, kTwoPhaseParallel);
}

TEST(ChooseMode, IsDirectWhereEveryNodeHasOneInstance) {
  const Topology topology = TopologyOf(2, 3, 1);
  EXPECT_EQ(ChooseMode(topology, Planned(), Reported(topology, kSlow), kTwoPhaseSingle, true).mode,
            kDirect);
}

TEST(ChooseMode, AnEpochOnlyForItsModeMustGainMore) {
  const Topology topology = TopologyOf(2, 1, 2);  // two instances of a pod, one expert instance
  const auto links = [&](const MeasuredLink& link) {
    LinksReported reported = Reported(topology, link);
    reported.rows_per_step = 1;
    return reported;
  };
  LinksReported reported = links({1e-4, 1e9, 2e-3});
  // Single sends one message instead of two, each of 2 ms, in both directions.
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, kTwoPhaseParallel, true).mode,
            kTwoPhaseSingle);
  // The same share of very little.
  reported = links({1e-6, 1e12, 2e-5});
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, kTwoPhaseParallel, true).mode,
            kTwoPhaseParallel);
  // A tenth less.
  reported = links({1e-2, 1e12, 2e-3});
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, kTwoPhaseParallel, true).mode,
            kTwoPhaseParallel);
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, kTwoPhaseParallel, false).mode,
            kTwoPhaseSingle)
      << "the epoch is made anyway";
}

TEST(ChooseMode, LeavesOutAModeWithoutRoom) {
  const Topology topology = TopologyOf(2, 1, 2);
  const LinksReported reported = Reported(topology, {1e-4, 1e9, 2e-3});
  PlannedService planned = Planned();
  planned.plan.mode_fits[static_cast<size_t>(kTwoPhaseSingle)] = false;
  const ChosenMode chosen = ChooseMode(topology, planned, reported, std::nullopt, false);
  EXPECT_NE(chosen.mode, kTwoPhaseSingle);
  EXPECT_TRUE(Contains(chosen.why, "(needs too much memory)")) << chosen.why;
}

TEST(ChooseMode, TakesThePairsThatWereNotMeasuredForTypical) {
  const Topology topology = TopologyOf(4, 4, 2);
  LinksReported reported = Reported(topology, kSlow);
  reported.links.erase({"a1", "e1"});
  reported.not_measured = "a1 to e1: its answers took too long";
  const ChosenMode chosen = ChooseMode(topology, Planned(), reported, std::nullopt, false);
  EXPECT_TRUE(Contains(chosen.why, "(3 of 4 pairs of nodes; a1 to e1: its answers took too long)"))
      << chosen.why;
}

TopologyRecord Record() {
  TopologyRecord record;
  record.epoch = 7;
  record.instances = {{Role::kAttention, "uid-a", 0, 0, "a0", "", "10.0.0.1:9000"},
                      {Role::kExperts, "uid-e", 0, 0, "e0", "", "10.0.0.2:9000"},
                      {Role::kExperts, "uid-f", 0, 0, "e1", "", "10.0.0.3:9000"}};
  return record;
}

Statistics Answer(uint64_t epoch) {
  Statistics statistics;
  InstanceStatistics& one = statistics.instances.emplace_back();
  one.role = Role::kAttention;
  one.epoch = epoch;
  one.steps = 100;
  one.rows = 800;
  one.links = {{Role::kExperts, Rank{0}, "UCX", kSlow},
               {Role::kExperts, Rank{1}, "UCX", std::nullopt, "its answers took too long"},
               {Role::kExperts, Rank{9}, "UCX", kSlow}};
  return statistics;
}

TEST(LinksReportedBy, NamesNodesAndCountsRows) {
  const Statistics answer = Answer(7);
  const LinksReported reported = LinksReportedBy(Record(), &answer);
  ASSERT_EQ(reported.links.size(), 1u) << "rank 9 is outside data";
  EXPECT_EQ(reported.links.at({"a0", "e0"}), kSlow);
  EXPECT_EQ(reported.not_measured, "a0 to e1: its answers took too long");
  EXPECT_DOUBLE_EQ(reported.rows_per_step, 8);
}

TEST(LinksReportedBy, TakesNothingOfAnotherEpoch) {
  const Statistics answer = Answer(6);
  EXPECT_TRUE(LinksReportedBy(Record(), &answer).links.empty());
  EXPECT_FALSE(LinksReportedBy(Record(), &answer).has_answer);
  EXPECT_FALSE(LinksReportedBy(Record(), nullptr).has_answer);
}

}  // namespace
}  // namespace janus::control
