#include "dataplane/comm/exchange/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace janus::dataplane {
namespace {

// Nodes of equal sizes.
ExchangeShape ShapeOfNodes(int attention_nodes, int attention_each, int expert_nodes,
                           int experts_each) {
  ExchangeShape shape;
  shape.m = attention_nodes * attention_each;
  shape.n = expert_nodes * experts_each;
  for (int a = 0; a < shape.m; ++a) shape.node_of.push_back(a / attention_each);
  for (int e = 0; e < shape.n; ++e) shape.node_of.push_back(e / experts_each);
  return shape;
}

struct Ends {
  size_t lanes = 0;
  size_t attention = 0;  // different attention instances at which a lane ends
  size_t experts = 0;
  friend bool operator==(const Ends&, const Ends&) = default;
};
void PrintTo(const Ends& ends, std::ostream* out) {
  *out << ends.lanes << " lanes from " << ends.attention << " to " << ends.experts;
}
Ends EndsOf(ExchangeMode mode, const ExchangeShape& shape) {
  std::set<int> attention, experts;
  const Lanes lanes(mode, shape);
  for (const Lane& lane : lanes.all()) {
    attention.insert(lane.attention_end);
    experts.insert(lane.expert_end);
  }
  return {lanes.all().size(), attention.size(), experts.size()};
}

constexpr ExchangeMode kSingle = ExchangeMode::kTwoPhaseSingle;
constexpr ExchangeMode kParallel = ExchangeMode::kTwoPhaseParallel;

TEST(Lanes, SingleUsesTheFirstInstanceOfEachNode) {
  EXPECT_EQ(EndsOf(kSingle, ShapeOfNodes(2, 4, 4, 2)), (Ends{8, 2, 4}));
  EXPECT_EQ(EndsOf(kSingle, ShapeOfNodes(2, 4, 1, 4)), (Ends{2, 2, 1}));
}

TEST(Lanes, ParallelUsesEveryInstance) {
  EXPECT_EQ(EndsOf(kParallel, ShapeOfNodes(2, 4, 4, 2)), (Ends{8, 8, 8}));
  EXPECT_EQ(EndsOf(kParallel, ShapeOfNodes(2, 4, 1, 4)), (Ends{8, 8, 4}))
      << "one to one from each node";
  EXPECT_EQ(EndsOf(kParallel, ShapeOfNodes(1, 4, 3, 2)), (Ends{4, 4, 4}));
  EXPECT_EQ(EndsOf(kParallel, ShapeOfNodes(1, 2, 5, 1)), (Ends{5, 2, 5}));
}

TEST(Lanes, EveryRowHasOneWayToEveryExpertNode) {
  for (const ExchangeMode mode : {kSingle, kParallel}) {
    for (int nodes = 1; nodes <= 4; ++nodes) {
      for (int each = 1; each <= 4; ++each) {
        const ExchangeShape shape = ShapeOfNodes(nodes, each, 5 - nodes, 1 + each % 3);
        const Lanes lanes(mode, shape);
        for (int a = 0; a < shape.m; ++a) {
          std::set<int> reached;
          for (const Lane* lane : lanes.OfAttention(a)) {
            for (const int e : lane->experts) EXPECT_TRUE(reached.insert(e).second);
          }
          EXPECT_EQ(reached.size(), static_cast<size_t>(shape.n)) << "attention " << a;
          const std::vector<const Lane*> own = lanes.EndingAtAttention(a);
          for (const Lane* lane : own) {
            EXPECT_EQ(lane->attention, own.front()->attention);
            EXPECT_TRUE(std::ranges::binary_search(lane->attention, a)) << "carries its own rows";
          }
        }
        for (int e = 0; e < shape.n; ++e) {
          size_t carried = 0;
          for (const Lane* lane : lanes.OfExpert(e)) carried += lane->attention.size();
          EXPECT_EQ(carried, static_cast<size_t>(shape.m)) << "experts " << e;
        }
      }
    }
  }
}

TEST(Lanes, NodesNeedNotBeEqualOrContiguous) {
  ExchangeShape shape;
  shape.m = 3;
  shape.n = 3;
  shape.node_of = {0, 1, 0, 0, 1, 1};
  const Lanes lanes(kParallel, shape);
  EXPECT_EQ(lanes.expert_nodes(), (std::vector<int>{0, 1, 1}));
  const std::vector<const Lane*> of2 = lanes.OfAttention(2);
  ASSERT_EQ(of2.size(), 2u);
  EXPECT_EQ(of2[0]->attention_end, 0);
  EXPECT_EQ(of2[1]->attention_end, 2);
  EXPECT_EQ(of2[1]->attention, (std::vector<int>{0, 2}));
  EXPECT_EQ(of2[1]->experts, (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace janus::dataplane
