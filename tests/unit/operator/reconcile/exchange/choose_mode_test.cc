#include "operator/reconcile/exchange/choose_mode.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::control {
namespace {

using controllers::ExchangeWay;
using enum janus::ExchangeMode;
using GateOf = janus::GateSide;

constexpr ExchangeWay OnExperts(janus::ExchangeMode mode) {
  return {mode, GateOf::kExperts};
}
constexpr ExchangeWay OnAttention(janus::ExchangeMode mode) {
  return {mode, GateOf::kAttention};
}

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

constexpr MeasuredLink kFast = {2e-6, 50e9, 1e-6};

PlannedService PlannedOnGpus() {
  PlannedService planned = Planned();
  planned.model.hidden = 7168;
  planned.model.moe.top_k = 8;
  planned.plan.effective.mode = kDirect;
  planned.plan.effective.device = Device::kCuda;
  return planned;
}

TEST(ChooseMode, LeavesDirectOnGpusIfRowsStayThere) {
  const Topology topology = TopologyOf(16, 32, 8);
  const PlannedService planned = PlannedOnGpus();
  LinksReported reported = Reported(topology, kFast);
  reported.rows_per_step = 64;
  ChosenMode chosen = ChooseMode(topology, planned, reported, OnExperts(kDirect), true);
  EXPECT_EQ(chosen.way, OnExperts(kDirect)) << chosen.why;
  EXPECT_TRUE(chosen.why.ends_with("64 rows of an instance, through host memory")) << chosen.why;
  reported.in_gpus = true;
  chosen = ChooseMode(topology, planned, reported, OnExperts(kDirect), true);
  EXPECT_EQ(chosen.way, OnExperts(kTwoPhaseParallel)) << chosen.why;
  EXPECT_TRUE(chosen.why.ends_with("64 rows of an instance, which stay in GPUs")) << chosen.why;
  EXPECT_EQ(ChooseMode(topology, planned, reported, chosen.way, true).way, chosen.way);
}

// Direct leaves rows in GPUs, two phases do not, because the instances of a node share nothing.
TEST(ChooseMode, OnGpusDoesNotChangeForEver) {
  Topology topology = TopologyOf(16, 16, 8);
  PlannedService planned = PlannedOnGpus();
  LinksReported reported = Reported(topology, kFast);
  reported.rows_per_step = 64;
  reported.some_in_gpus = true;  // contributions
  const ExchangeWay parallel = OnExperts(kTwoPhaseParallel);
  for (const bool only_for_mode : {true, false}) {
    const ChosenMode chosen = ChooseMode(topology, planned, reported, parallel, only_for_mode);
    EXPECT_EQ(chosen.way, parallel) << chosen.why;
    EXPECT_TRUE(Contains(chosen.why, "spec.exchange.mode: Direct")) << chosen.why;
    EXPECT_LE(chosen.why.size(), kMostWhy);
  }
  // Where all passes through hosts in every mode, figures compare all modes.
  reported.some_in_gpus = false;
  EXPECT_EQ(ChooseMode(topology, planned, reported, parallel, true).way, OnExperts(kDirect));
  reported.some_in_gpus = true;
  planned.plan.effective.sums.bits = 32;
  EXPECT_FALSE(Contains(ChooseMode(topology, planned, reported, parallel, true).why, "stays,"));
  planned.plan.effective.sums.bits = 0;
  // Whether they share memory is known before where a transport is forced.
  reported.in_gpus = true;
  topology.transport = ExchangeTransport::kRdma;
  const ChosenMode chosen = ChooseMode(topology, planned, reported, OnExperts(kDirect), true);
  EXPECT_EQ(chosen.way, OnExperts(kDirect)) << chosen.why;
  EXPECT_TRUE(Contains(chosen.why, "spec.exchange.transport")) << chosen.why;
}

// Each expert instance has `slots` of the model's experts, from the first one that its rank has
// with `stride`; several layers.
void Place(int slots, int stride, int experts, Topology& topology) {
  topology.placement.layers = 2;
  topology.placement.slots_of_instance.assign(topology.experts.size(), slots);
  for (int layer = 0; layer < 2; ++layer) {
    for (size_t e = 0; e < topology.experts.size(); ++e) {
      topology.experts[e].slots = slots;
      for (int slot = 0; slot < slots; ++slot) {
        const int expert = (static_cast<int>(e) * stride + slot) % experts;
        topology.placement.expert_of.push_back(static_cast<uint16_t>(expert));
      }
    }
  }
}

// Four nodes of two expert instances, which hold every expert once.
Topology ManyExpertNodes() {
  Topology topology = TopologyOf(2, 8, 2);
  Place(8, 8, 64, topology);
  return topology;
}

PlannedService WithBothSides() {
  PlannedService planned = Planned();
  planned.model.moe.experts = 64;
  planned.model.moe.top_k = 2;
  planned.plan.gate_fits.fill(true);
  return planned;
}

double FirstFigure(const ChosenMode& chosen) {
  return std::stod(chosen.why.substr(chosen.why.find(": ") + 2));
}

TEST(ChooseMode, CountsOnlyNeededRowsIfTheGateIsOnAttention) {
  const Topology topology = ManyExpertNodes();
  PlannedService planned = Planned();
  planned.model.moe.experts = 64;
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 64;
  const ChosenMode all = ChooseMode(topology, planned, reported, OnExperts(kDirect), true);
  planned.plan.effective.gate = GateOf::kAttention;
  const ChosenMode needed = ChooseMode(topology, planned, reported, OnAttention(kDirect), true);
  EXPECT_EQ(needed.way.gate, GateOf::kAttention) << "the user's";
  EXPECT_LT(FirstFigure(needed), FirstFigure(all));
  EXPECT_FALSE(Contains(needed.why, "gate")) << needed.why;
}

TEST(ChooseMode, PutsTheGateOnAttentionWhereFewRowsAreNeeded) {
  const Topology topology = ManyExpertNodes();
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 64;
  const PlannedService planned = WithBothSides();
  const ChosenMode chosen =
      ChooseMode(topology, planned, reported, OnExperts(kTwoPhaseParallel), true);
  EXPECT_EQ(chosen.way.gate, GateOf::kAttention) << chosen.why;
  EXPECT_TRUE(chosen.why.starts_with(std::string(janus::ToString(chosen.way.mode)) +
                                     ", gate on attention: "))
      << chosen.why;
  EXPECT_TRUE(Contains(chosen.why, "ms a round, gate on experts ")) << chosen.why;
  EXPECT_TRUE(Contains(chosen.why, "Direct ")) << chosen.why;
  // The epoch that has it keeps it.
  EXPECT_EQ(ChooseMode(topology, planned, reported, chosen.way, true).way, chosen.way);
  // The user's mode stays, and only its sides are compared.
  PlannedService asked = planned;
  asked.plan.chooses_mode = false;
  asked.plan.effective.mode = kDirect;
  asked.plan.mode_fits = asked.plan.gate_fits = {true, false, false};
  const ChosenMode of_mode = ChooseMode(topology, asked, reported, OnExperts(kDirect), false);
  EXPECT_EQ(of_mode.way, OnAttention(kDirect)) << of_mode.why;
  EXPECT_TRUE(
      of_mode.why.starts_with("Direct: spec.exchange.mode asks for it; gate on attention: "))
      << of_mode.why;
  EXPECT_FALSE(Contains(of_mode.why, "TwoPhase")) << of_mode.why;
}

TEST(ChooseMode, LeavesTheGateOnExpertsWhereAllRowsAreNeeded) {
  // Each node holds every expert, so choices are what the gate on attention adds.
  Topology topology = TopologyOf(2, 4, 2);
  Place(32, 32, 64, topology);
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 64;
  const ChosenMode chosen = ChooseMode(topology, WithBothSides(), reported, std::nullopt, false);
  EXPECT_EQ(chosen.way, OnExperts(kTwoPhaseParallel)) << chosen.why;
  EXPECT_TRUE(chosen.why.starts_with("TwoPhaseParallel, gate on experts: ")) << chosen.why;
}

TEST(ChooseMode, CountsReplicasThatANodeHolds) {
  LinksReported reported = Reported(ManyExpertNodes(), kSlow);
  reported.rows_per_step = 64;
  PlannedService planned = WithBothSides();
  planned.plan.effective.gate = GateOf::kAttention;
  planned.plan.gate_fits.fill(false);
  const auto seconds = [&](int slots) {
    Topology topology = TopologyOf(2, 8, 2);
    Place(slots, 8, 64, topology);
    return FirstFigure(
        ChooseMode(topology, planned, reported, OnAttention(kTwoPhaseParallel), true));
  };
  EXPECT_GT(seconds(24), 1.2 * seconds(8));
}

TEST(ChooseMode, ThePodsOfOneInstanceHaveTheirGateWhereItIsFast) {
  Topology topology = TopologyOf(2, 8, 1);
  Place(8, 8, 64, topology);
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 64;
  const ChosenMode chosen =
      ChooseMode(topology, WithBothSides(), reported, OnExperts(kDirect), true);
  EXPECT_EQ(chosen.way, OnAttention(kDirect)) << chosen.why;
  EXPECT_FALSE(Contains(chosen.why, "TwoPhase")) << "it could bundle nothing: " << chosen.why;
}

TEST(ChooseMode, AnEpochOnlyForItsGateMustGainMore) {
  const Topology topology = ManyExpertNodes();
  const PlannedService planned = WithBothSides();
  LinksReported reported = Reported(topology, {10e-3, 22.5e6, 0});  // it gains about a sixth
  reported.rows_per_step = 64;
  const auto chosen = [&](bool only_for_mode) {
    return ChooseMode(topology, planned, reported, OnExperts(kTwoPhaseParallel), only_for_mode);
  };
  const ChosenMode alone = chosen(true);
  EXPECT_EQ(alone.way.gate, GateOf::kExperts);
  EXPECT_TRUE(Contains(alone.why, "; stays until another gains 25 % and 0.1 ms; measured "))
      << alone.why;
  EXPECT_LE(alone.why.size(), kMostWhy);
  const ChosenMode beside = chosen(false);
  EXPECT_EQ(beside.way.gate, GateOf::kAttention) << "the epoch is made anyway";
  EXPECT_FALSE(Contains(beside.why, "stays")) << beside.why;
}

TEST(ChooseMode, KeepsTheGateWhileNothingIsMeasured) {
  const Topology topology = ManyExpertNodes();
  const PlannedService planned = WithBothSides();
  LinksReported none;
  const ChosenMode chosen =
      ChooseMode(topology, planned, none, OnAttention(kTwoPhaseParallel), true);
  EXPECT_EQ(chosen.way, OnAttention(kTwoPhaseParallel));
  EXPECT_TRUE(chosen.why.starts_with("TwoPhaseParallel, gate on attention, without measured"))
      << chosen.why;
  EXPECT_EQ(ChooseMode(topology, planned, none, OnAttention(kDirect), false).way,
            OnAttention(kDirect))
      << "an epoch for another reason brings no knowledge of links";
}

TEST(ChooseMode, KeepsWithoutMeasuredLinksOnlyWhatIsAllowed) {
  const LinksReported none;
  const auto way = [&](const Topology& topology, const PlannedService& planned) {
    return ChooseMode(topology, planned, none, OnAttention(kTwoPhaseSingle), false).way;
  };
  PlannedService planned = WithBothSides();
  planned.plan.gate_fits[static_cast<size_t>(kTwoPhaseSingle)] = false;
  EXPECT_EQ(way(ManyExpertNodes(), planned), OnAttention(kTwoPhaseParallel));
  planned.plan.gate_fits = {true, false, false};
  EXPECT_EQ(way(ManyExpertNodes(), planned), OnExperts(kTwoPhaseParallel));
  EXPECT_EQ(way(TopologyOf(2, 8, 1), planned), OnAttention(kDirect)) << "nothing to bundle";
}

TEST(ChooseMode, KeepsNoDirectThatWasNoChoice) {
  LinksReported of_singles;
  of_singles.has_single_instances = true;
  const auto way = [&](const Topology& topology, const ExchangeWay& current) {
    return ChooseMode(topology, WithBothSides(), of_singles, current, false).way;
  };
  EXPECT_EQ(way(ManyExpertNodes(), OnExperts(kDirect)), OnExperts(kTwoPhaseParallel));
  EXPECT_EQ(way(ManyExpertNodes(), OnAttention(kDirect)), OnAttention(kTwoPhaseParallel));
  EXPECT_EQ(way(TopologyOf(2, 8, 1), OnAttention(kDirect)), OnAttention(kDirect));
  // Where Direct had no room.
  EXPECT_EQ(way(ManyExpertNodes(), OnExperts(kTwoPhaseSingle)), OnExperts(kTwoPhaseSingle));
}

TEST(ChooseMode, LeavesOutAGateWithoutRoom) {
  const Topology topology = ManyExpertNodes();
  LinksReported reported = Reported(topology, kSlow);
  reported.rows_per_step = 64;
  PlannedService planned = WithBothSides();
  planned.plan.gate_fits = {true, false, false};
  const ChosenMode chosen = ChooseMode(topology, planned, reported, std::nullopt, false);
  EXPECT_FALSE(chosen.way == OnAttention(kTwoPhaseParallel)) << chosen.why;
  EXPECT_TRUE(Contains(chosen.why, "(needs too much memory)")) << chosen.why;
  EXPECT_LE(chosen.why.size(), kMostWhy);
}

TEST(ChooseMode, OfTheUserIsNotCompared) {
  PlannedService planned = Planned();
  planned.plan.chooses_mode = false;
  const Topology topology = TopologyOf(4, 4, 2);
  const ChosenMode chosen =
      ChooseMode(topology, planned, Reported(topology, kSlow), OnExperts(kDirect), true);
  EXPECT_EQ(chosen.way, OnExperts(kTwoPhaseParallel));
  EXPECT_EQ(chosen.why, "TwoPhaseParallel: spec.exchange.mode asks for it");
}

TEST(ChooseMode, HoldsTheDefaultWithoutMeasuredLinks) {
  const Topology topology = TopologyOf(4, 4, 2);
  LinksReported none;
  EXPECT_EQ(ChooseMode(topology, Planned(), none, std::nullopt, false).way.mode, kTwoPhaseParallel);
  none.has_answer = true;
  none.not_measured = "a0 to e1: its answers took too long";
  const ChosenMode chosen =
      ChooseMode(topology, Planned(), none, OnExperts(kTwoPhaseParallel), false);
  EXPECT_EQ(chosen.way.mode, kTwoPhaseParallel);
  EXPECT_TRUE(Contains(chosen.why, none.not_measured)) << chosen.why;
  for (const bool only_for_mode : {true, false}) {
    EXPECT_EQ(ChooseMode(topology, Planned(), none, OnExperts(kDirect), only_for_mode).way.mode,
              kDirect)
        << "what the committed epoch has";
  }
}

TEST(ChooseMode, IsDirectWhereEveryNodeHasOneInstance) {
  const Topology topology = TopologyOf(2, 3, 1);
  EXPECT_EQ(
      ChooseMode(topology, Planned(), Reported(topology, kSlow), OnExperts(kTwoPhaseSingle), true)
          .way.mode,
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
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, OnExperts(kTwoPhaseParallel), true).way.mode,
            kTwoPhaseSingle);
  // The same share of very little.
  reported = links({1e-6, 1e12, 2e-5});
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, OnExperts(kTwoPhaseParallel), true).way.mode,
            kTwoPhaseParallel);
  // A tenth less.
  reported = links({1e-2, 1e12, 2e-3});
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, OnExperts(kTwoPhaseParallel), true).way.mode,
            kTwoPhaseParallel);
  EXPECT_EQ(ChooseMode(topology, Planned(), reported, OnExperts(kTwoPhaseParallel), false).way.mode,
            kTwoPhaseSingle)
      << "the epoch is made anyway";
}

TEST(ChooseMode, LeavesOutAModeWithoutRoom) {
  const Topology topology = TopologyOf(2, 1, 2);
  const LinksReported reported = Reported(topology, {1e-4, 1e9, 2e-3});
  PlannedService planned = Planned();
  planned.plan.mode_fits[static_cast<size_t>(kTwoPhaseSingle)] = false;
  const ChosenMode chosen = ChooseMode(topology, planned, reported, std::nullopt, false);
  EXPECT_NE(chosen.way.mode, kTwoPhaseSingle);
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

TEST(LinksReportedBy, KnowsThatRowsStayInGpusIfAllLinksToExpertsSaySo) {
  Statistics answer = Answer(7);
  EXPECT_FALSE(LinksReportedBy(Record(), &answer).in_gpus);
  const auto set = [&](const std::string& transport) {
    for (InstanceStatistics& one : answer.instances) {
      for (PeerLink& link : one.links) link.transport = transport;
    }
  };
  set("UCX rc_mlx5/mlx5_0:1, GPU memory");
  EXPECT_TRUE(LinksReportedBy(Record(), &answer).in_gpus);
  // Attention instances exchange no rows.
  answer.instances.front().links.push_back({Role::kAttention, Rank{0}, "shared memory"});
  EXPECT_TRUE(LinksReportedBy(Record(), &answer).in_gpus);
  for (InstanceStatistics& one : answer.instances) {
    for (PeerLink& link : one.links) {
      if (link.role == Role::kExperts) link.transport = "UCX rc_mlx5/mlx5_0:1, GPU memory one way";
    }
  }
  EXPECT_FALSE(LinksReportedBy(Record(), &answer).in_gpus);
  EXPECT_TRUE(LinksReportedBy(Record(), &answer).some_in_gpus);
  set("UCX rc_mlx5/mlx5_0:1");
  EXPECT_FALSE(LinksReportedBy(Record(), &answer).some_in_gpus);
}

TEST(LinksReportedBy, SeesWhereEachNodeHasOneInstance) {
  TopologyRecord record = Record();
  EXPECT_TRUE(LinksReportedBy(record, nullptr).has_single_instances);
  record.instances[0].node = "e0";
  EXPECT_TRUE(LinksReportedBy(record, nullptr).has_single_instances) << "nodes are of one role";
  record.instances[2].node = "e0";
  EXPECT_FALSE(LinksReportedBy(record, nullptr).has_single_instances);
}

TEST(LinksReportedBy, TakesNothingOfAnotherEpoch) {
  const Statistics answer = Answer(6);
  EXPECT_TRUE(LinksReportedBy(Record(), &answer).links.empty());
  EXPECT_FALSE(LinksReportedBy(Record(), &answer).has_answer);
  EXPECT_FALSE(LinksReportedBy(Record(), nullptr).has_answer);
}

}  // namespace
}  // namespace janus::control
