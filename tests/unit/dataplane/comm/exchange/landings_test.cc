// Which instance of an expert node reads the rows of an attention instance for its node.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "dataplane/comm/exchange/direct.h"
#include "dataplane/comm/exchange/lanes.h"
#include "tests/unit/dataplane/comm/exchange/steps.h"

namespace janus::dataplane {
namespace {

constexpr ExchangeMode kModes[] = {ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel};

int NodeOf(const ExchangeShape& shape, PeerId expert) {
  return shape.node_of[static_cast<size_t>(shape.m + expert.rank.value)];
}

TEST(Landings, EverySlotOfRowsLandsOnceInEachExpertNodeAndOthersOfTheNodeReadItThere) {
  Random random(TestSeed());
  for (int run = 0; run < 200; ++run) {
    Nodes nodes;
    for (std::vector<int>* role : {&nodes.attention, &nodes.experts}) {
      const int count = random.Between(1, 4);
      for (int i = 0; i < count; ++i) role->push_back(random.Between(1, 5));
    }
    const ExchangeShape shape = ShapeOfNodes(nodes, random.Between(1, 3), 1, random.Between(1, 9));
    for (const ExchangeMode mode : kModes) {
      const TransportLayout layout = LayoutFor(mode, shape, PeerId{});
      std::set<std::tuple<int, PeerId, int>> landed;  // expert node, source, slot
      std::map<PeerId, size_t> end;                   // of the pieces so far
      for (const LandingSpec& landing : layout.landings) {
        const int node = NodeOf(shape, landing.owner);
        EXPECT_TRUE(landed.emplace(node, landing.source, landing.slot).second);
        EXPECT_EQ(landing.bytes, RowLandingBytes(shape));
        EXPECT_GE(landing.bytes, RowSlotBytes(shape.size()));
        EXPECT_EQ(landing.at, end[landing.owner]) << "pieces overlap, or leave a gap";
        end[landing.owner] = landing.at + landing.bytes;
        std::set<PeerId> readers(landing.mates.begin(), landing.mates.end());
        readers.insert(landing.owner);
        EXPECT_EQ(readers.size(), landing.mates.size() + 1);
        EXPECT_EQ(std::ssize(readers), nodes.experts[static_cast<size_t>(node)]);
        for (const PeerId& reader : readers) EXPECT_EQ(NodeOf(shape, reader), node);
      }
      EXPECT_EQ(landed.size(),
                nodes.experts.size() * static_cast<size_t>(shape.m * shape.micro_batches));
      for (int e = 0; e < shape.n; ++e) {
        const PeerId self{Role::kExperts, Rank{e}};
        EXPECT_EQ(LandingOf(layout, self), end[self]);
        // Plans count what mode Direct needs.
        EXPECT_LE(LandingOf(layout, self), LandingOf(DirectLayout(shape, self), self));
      }
      // The lane that has the header has the rows.
      const Lanes lanes(mode, shape);
      for (const LandingSpec& landing : layout.landings) {
        const bool is_carried = std::ranges::any_of(
            lanes.EndingAtExpert(landing.owner.rank.value), [&](const Lane* lane) {
              return std::ranges::count(lane->attention, landing.source.rank.value) > 0;
            });
        EXPECT_TRUE(is_carried);
      }
    }
  }
}

TEST(Landings, AreSpreadOverTheCardsOfTheNode) {
  const ExchangeShape shape = ShapeOfNodes({{4, 4}, {4, 4}}, 2, 1, 4);
  std::map<PeerId, int> landed;
  for (const LandingSpec& landing :
       LayoutFor(ExchangeMode::kTwoPhaseParallel, shape, PeerId{}).landings) {
    ++landed[landing.owner];
  }
  EXPECT_EQ(landed.size(), 8u);
  for (const auto& [owner, pieces] : landed) EXPECT_EQ(pieces, 8 * 2 / 4) << owner;
}

// With an exchange in host memory nothing lands in GPUs.
TEST(Landings, AreNoneWherePayloadsPassThroughHosts) {
  ExchangeShape shape = ShapeOfNodes({{2}, {2}}, 1, 1, 4);
  EXPECT_FALSE(LayoutFor(ExchangeMode::kTwoPhaseSingle, shape, PeerId{}).landings.empty());
  shape.compression = Compression::kFp8;
  EXPECT_TRUE(LayoutFor(ExchangeMode::kTwoPhaseSingle, shape, PeerId{}).landings.empty());
  EXPECT_EQ(WhyThroughHosts(shape), "the exchange compresses rows on their way to host memory");
  shape.compression = Compression::kNone;
  shape.sums.bits = 32;
  shape.gate = GateSide::kAttention;
  EXPECT_FALSE(WhyThroughHosts(shape).empty());
}

// Members that computed different landings refuse each other.
TEST(Landings, ArePartOfTheLayoutsHash) {
  const ExchangeShape shape = ShapeOfNodes({{2}, {2}}, 1, 1, 4);
  TransportLayout layout = LayoutFor(ExchangeMode::kTwoPhaseSingle, shape, PeerId{});
  const uint64_t before = LayoutHash(layout);
  std::swap(layout.landings.front().owner, layout.landings.front().mates.front());
  EXPECT_NE(LayoutHash(layout), before);
  layout = LayoutFor(ExchangeMode::kTwoPhaseSingle, shape, PeerId{});
  layout.device_slots.front().readers.pop_back();
  EXPECT_NE(LayoutHash(layout), before);
}

}  // namespace
}  // namespace janus::dataplane
