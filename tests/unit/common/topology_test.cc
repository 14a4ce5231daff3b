#include "common/topology.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

constexpr uint16_t kEmpty = Placement::kEmpty;

struct Case {
  const char* name;
  Placement placement;
  const char* message;  // part of the refusal; empty: valid
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class PlacementTest : public testing::TestWithParam<Case> {};

TEST_P(PlacementTest, IsJudged) {
  const Status status = Validate(GetParam().placement, 1, 3);
  if (*GetParam().message == '\0') {
    EXPECT_TRUE(status.ok()) << status.ToString();
  } else {
    EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlacementTest,
    testing::Values(
        Case{"UnevenWithSpare", {1, {1, 3}, {0, 1, 2, kEmpty}}, ""},
        Case{"ReplicaElsewhere", {1, {2, 2}, {0, 1, 2, 0}}, ""},
        Case{"TwiceOnOneInstance", {1, {2, 2}, {0, 0, 1, 2}}, "a second replica of expert 0"},
        Case{"MissingExpert", {1, {2, 2}, {0, 1, 1, kEmpty}}, "expert 2 has no replica"},
        Case{"UnknownExpert", {1, {2, 2}, {0, 1, 2, 3}}, "slot 3: expert 3"},
        Case{"WrongSize", {1, {2, 2}, {0, 1, 2}}, "3 entries"},
        Case{"WrongLayers", {2, {3}, {0, 1, 2, 0, 1, 2}}, "2 layers"}),
    [](const auto& info) { return info.param.name; });

TEST(Placement, FindsSlotsOfAnInstance) {
  const Placement placement{2, {1, 3}, {0, 1, 2, kEmpty, 2, 1, 0, kEmpty}};
  EXPECT_EQ(placement.first_slot(Rank{1}), 1);
  EXPECT_EQ(placement.at(1, 0), 2);
}

TEST(TopologyHash, DependsOnEveryField) {
  Topology topology;
  topology.epoch = 1;
  topology.attention = {{Role::kAttention, "a", 0, 0, "n", "d", "x", "y", 0, {}}};
  topology.experts = {{Role::kExperts, "e", 0, 0, "n", "d", "x", "y", 2, {}}};
  topology.placement = {1, {2}, {0, 1}};
  topology.config_hash = "c";
  const uint64_t hash = TopologyHash(topology);
  EXPECT_EQ(TopologyHash(Topology(topology)), hash);
  const std::vector<void (*)(Topology&)> changes = {
      [](Topology& t) { t.epoch = 2; },
      [](Topology& t) { t.attention.push_back(t.attention[0]); },
      [](Topology& t) { std::swap(t.attention, t.experts); },
      [](Topology& t) { t.experts[0].pod_uid = "f"; },
      [](Topology& t) { t.experts[0].index = 1; },
      [](Topology& t) { t.experts[0].incarnation = 1; },
      [](Topology& t) { t.experts[0].node = "nd", t.experts[0].domain = ""; },
      [](Topology& t) { t.experts[0].domain = "x"; },
      [](Topology& t) { t.experts[0].address = "z"; },
      [](Topology& t) { t.experts[0].exchange_address = "z"; },
      [](Topology& t) { t.experts[0].slots = 3; },
      [](Topology& t) { t.attention[0].sequences.max_batch_size = 1; },
      [](Topology& t) { t.attention[0].sequences.max_model_len = 1; },
      [](Topology& t) { t.attention[0].sequences.kv_bytes = 1; },
      [](Topology& t) { t.attention[0].sequences.swap_bytes = 1; },
      [](Topology& t) { t.attention[0].sequences.prefix_host_bytes = 1; },
      [](Topology& t) { t.mode = ExchangeMode::kTwoPhaseSingle; },
      [](Topology& t) { t.transport = ExchangeTransport::kTcp; },
      [](Topology& t) { t.gate = GateSide::kAttention; },
      [](Topology& t) { t.sum = SumRule::kFixedPoint; },
      [](Topology& t) { t.micro_batches = 2; },
      [](Topology& t) { t.max_rows_per_round = 3; },
      [](Topology& t) { t.placement.layers = 2; },
      [](Topology& t) { t.placement.slots_of_instance = {1}; },
      [](Topology& t) { std::swap(t.placement.expert_of[0], t.placement.expert_of[1]); },
      [](Topology& t) { t.config_hash = "d"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Topology other = topology;
    changes[i](other);
    EXPECT_NE(TopologyHash(other), hash) << i;
  }
}

}  // namespace
}  // namespace janus
