// Placement follows the traffic of a service in simulated time: what its members sample decides
// where its experts are.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/records/service_page.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

constexpr int kLayers = 4;
using Pair = std::array<uint16_t, 2>;

// Two rows of a step choose one pair, two other rows the next one.
const std::vector<Pair> kNeighbours = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
// Those that experts dealt in turn to four instances put on one instance.
const std::vector<Pair> kOpposite = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};

class PlacementTest : public testing::Test {
 protected:
  PlacementTest() {
    sim_.workers.rounds = [this](size_t most) {
      std::vector<RoutedRound> out;
      for (size_t i = 0; i < most; ++i) {
        RoutedRound& round = out.emplace_back();
        round.epoch = 1;
        round.step = ++step_;
        round.layer = static_cast<int>(step_ % kLayers);
        round.top_k = 2;
        const Pair& pair = pairs_[step_ / kLayers % pairs_.size()];
        round.experts = {pair[0], pair[1], pair[0], pair[1]};
      }
      asked_ = most;
      return out;
    };
  }

  void Apply(const std::string& experts) {
    const Result<Node> object = ParseYaml(
        "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
        "metadata: {name: demo, namespace: default}\nspec:\n"
        "  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}\n"
        "  roles: {attention: {replicas: 1}, experts: {" +
            experts + "}}\n",
        "demo.yaml");
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    const auto applied = sim_.user.Apply(kMoEServices, *object, Subresource::kNone, {}, {});
    ASSERT_TRUE(applied.ok()) << applied.status().ToString();
    sim_.RunUntil("Ready");
  }
  // What the busiest instance reads in the worst step of these pairs.
  int Busiest(const std::vector<Pair>& pairs) {
    const Result<Placement> placement = PlacementOf(*sim_.Topology()->spec.committed);
    EXPECT_TRUE(placement.ok());
    int busiest = 0;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Pair& pair : pairs) {
        busiest = std::max(busiest, IsApart(*placement, layer, pair) ? 1 : 2);
      }
    }
    return busiest;
  }
  int64_t Epoch() { return sim_.Topology()->spec.committed->epoch; }

  SimulatedService sim_;
  std::vector<Pair> pairs_ = kOpposite;
  uint64_t step_ = 0;
  size_t asked_ = 0;

 private:
  // Whether two instances can compute them, one each.
  static bool IsApart(const Placement& placement, int layer, const Pair& pair) {
    std::array<std::set<size_t>, 2> on;
    int slot = 0;
    for (size_t j = 0; j < placement.slots_of_instance.size(); ++j) {
      for (int s = 0; s < placement.slots_of_instance[j]; ++s, ++slot) {
        for (size_t i = 0; i < 2; ++i) {
          if (placement.at(layer, slot) == pair[i]) on[i].insert(j);
        }
      }
    }
    return on[0].size() > 1 || on[1].size() > 1 || on[0] != on[1];
  }
};

constexpr auto kTwoSlots =
    "replicas: 4, slotsPerInstance: 2, placement: {rebalanceIntervalSeconds: 900}";

TEST_F(PlacementTest, MovesExpertsToWhereTheTrafficIs) {
  Apply(kTwoSlots);
  EXPECT_EQ(Busiest(kOpposite), 2) << "dealt in turn";
  const int64_t first = Epoch();
  sim_.Run(Seconds(240));
  EXPECT_EQ(Epoch(), first) << "too early to know the traffic";
  EXPECT_EQ(asked_, 96u);
  sim_.Run(Seconds(180));
  EXPECT_EQ(Epoch(), first + 1);
  EXPECT_EQ(Busiest(kOpposite), 1);
  EXPECT_EQ(sim_.op().CountEvents("PlacementChanged"), 1);
  const std::string text = sim_.op().LastText("PlacementChanged");
  EXPECT_TRUE(Contains(text, "reads 1.00 experts of a layer in a step, 2.00 before")) << text;

  // The traffic changes: at the next search experts follow it.
  pairs_ = kNeighbours;
  sim_.Run(Seconds(1900));
  EXPECT_EQ(Busiest(kNeighbours), 1);
  // Then nothing moves any more.
  const int64_t last = Epoch();
  sim_.Run(Seconds(3600));
  EXPECT_EQ(Epoch(), last);
  sim_.ExpectWhole(1, 4);
}

TEST_F(PlacementTest, IsRecordedForPeopleAndForJanusctlPlace) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  Apply(kTwoSlots);
  sim_.Run(Seconds(420));
  const WallTime now = sim_.timeline.WallNow();
  const std::string page = AnswerRecords(book, "/v1/services/default/demo", now).body;
  EXPECT_TRUE(Contains(page, "reads 1.00 experts of a layer in a step, 2.00 before")) << page;
  EXPECT_TRUE(Contains(page, "\"share\":[0.25,")) << page;
  const auto csv = AnswerRecords(book, "/v1/services/default/demo/routing", now);
  EXPECT_EQ(csv.status, 200);
  EXPECT_TRUE(csv.body.starts_with("layer0,layer1,layer2,layer3\n")) << csv.body;
  EXPECT_TRUE(Contains(csv.body, "\n1 5,")) << csv.body;
  EXPECT_EQ(AnswerRecords(book, "/v1/services/default/demo/else", now).status, 404);
}

TEST_F(PlacementTest, AnotherLeaderKeepsIt) {
  Apply(kTwoSlots);
  sim_.Run(Seconds(420));
  ASSERT_EQ(Busiest(kOpposite), 1);
  const int64_t epoch = Epoch();
  sim_.RestartOperator();
  sim_.Run(Seconds(600));
  EXPECT_EQ(Epoch(), epoch);
  EXPECT_EQ(Busiest(kOpposite), 1);
}

TEST_F(PlacementTest, AnotherNumberOfInstancesGetsItFromTheSameSearch) {
  Apply(kTwoSlots);
  sim_.Run(Seconds(420));
  sim_.Patch(R"({"spec": {"roles": {"experts": {"replicas": 5}}}})");
  sim_.Run(Seconds(60));
  sim_.ExpectWhole(1, 5);
  EXPECT_EQ(Busiest(kOpposite), 1);
  const int64_t epoch = Epoch();
  sim_.Run(Seconds(1000));
  EXPECT_EQ(Epoch(), epoch);
}

TEST_F(PlacementTest, RoundRobinAndPausedStay) {
  Apply("replicas: 4, slotsPerInstance: 2, placement: {policy: RoundRobin}");
  const int64_t first = Epoch();
  sim_.Run(Seconds(1200));
  EXPECT_EQ(Epoch(), first);
  sim_.Patch(
      R"({"spec": {"paused": true, "roles": {"experts": {"placement": {"policy": "Auto"}}}}})");
  sim_.Run(Seconds(1200));
  EXPECT_EQ(Epoch(), first);
  sim_.Patch(R"({"spec": {"paused": false}})");
  sim_.Run(Seconds(420));
  EXPECT_EQ(Busiest(kOpposite), 1);
}

TEST_F(PlacementTest, ALostInstanceIsReplacedAtOnce) {
  Apply(kTwoSlots);
  sim_.Run(Seconds(420));
  const std::vector<PodSeen> pods = sim_.Pods(Role::kExperts);
  ASSERT_EQ(pods.size(), 4u);
  sim_.cluster.Crash(pods[1].name);
  sim_.Run(Seconds(60));
  sim_.ExpectWhole(1, 4);
}

}  // namespace
}  // namespace janus::control
