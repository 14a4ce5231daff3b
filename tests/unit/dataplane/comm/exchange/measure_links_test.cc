#include "dataplane/comm/exchange/measure_links.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/unit/dataplane/comm/exchange/members.h"

namespace janus::dataplane {
namespace {

ExchangeShape ShapeOfNodes(const std::vector<int>& attention, const std::vector<int>& experts) {
  const auto count = [](const std::vector<int>& nodes) {
    int sum = 0;
    for (const int one : nodes) sum += one;
    return sum;
  };
  ExchangeShape shape = ShapeFor(count(attention), count(experts), 1, 64);
  for (const std::vector<int>* role : {&attention, &experts}) {
    for (size_t node = 0; node < role->size(); ++node) {
      shape.node_of.insert(shape.node_of.end(), static_cast<size_t>((*role)[node]),
                           static_cast<int>(node));
    }
  }
  return shape;
}

constexpr ExchangeMode kModes[] = {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle,
                                   ExchangeMode::kTwoPhaseParallel};

TEST(MeasuringPairs, AreOneForEachPairOfNodesInEveryMode) {
  for (const ExchangeMode mode : kModes) {
    for (const auto& [attention, experts] :
         {std::pair<std::vector<int>, std::vector<int>>{{4, 4}, {2, 2, 2, 2}},
          {{4, 4}, {4}},
          {{1, 3, 2}, {2, 1}},
          {{1}, {1}}}) {
      const ExchangeShape shape = ShapeOfNodes(attention, experts);
      const TransportLayout layout = LayoutFor(mode, shape, PeerId{});
      std::set<std::pair<int, int>> pairs;
      for (const MeasuringPair& pair : MeasuringPairs(layout, shape.node_of)) {
        EXPECT_TRUE(pairs.emplace(pair.attention_node, pair.expert_node).second) << ToString(mode);
        EXPECT_EQ(shape.node_of[static_cast<size_t>(pair.attention.value)], pair.attention_node);
        EXPECT_EQ(shape.node_of[static_cast<size_t>(shape.m + pair.expert.value)],
                  pair.expert_node);
        const auto slot = std::ranges::find_if(layout.slots, [&](const SlotSpec& one) {
          return one.owner == PeerId{Role::kExperts, pair.expert} && one.index == pair.slot;
        });
        ASSERT_NE(slot, layout.slots.end());
        EXPECT_EQ(slot->readers, (std::vector<PeerId>{{Role::kAttention, pair.attention}}))
            << "nobody else gets its large messages";
      }
      EXPECT_EQ(pairs.size(), attention.size() * experts.size()) << ToString(mode);
    }
  }
}

TEST(MeasuringPairs, TakeTurnsSoThatANodeHasOnePairInATurn) {
  const ExchangeShape shape = ShapeOfNodes({2, 2, 2}, {1, 1, 1});
  const auto pairs =
      MeasuringPairs(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}), shape.node_of);
  ASSERT_EQ(pairs.size(), 9u);
  for (size_t turn = 0; turn < 3; ++turn) {
    std::set<int> attention, experts;
    for (size_t i = 0; i < 3; ++i) {
      attention.insert(pairs[turn * 3 + i].attention_node);
      experts.insert(pairs[turn * 3 + i].expert_node);
    }
    EXPECT_EQ(attention.size(), 3u);
    EXPECT_EQ(experts.size(), 3u);
  }
}

// A link of 0.5 ms and 1 MB/s, on which a message costs 0.1 ms more.
LinkSamples Samples() {
  LinkSamples samples;
  samples.round_trips = {5.0, 1e-3, 1e-3, 1e-3, 2e-3};  // two were disturbed
  samples.burst_messages = 11;
  samples.burst_seconds = 2e-3;
  samples.bulks = {{16e3, 18e-3}, {64e3, 66e-3}};
  return samples;
}

TEST(FiguresOf, SeparatesLatencyBandwidthAndTheCostOfAMessage) {
  const std::optional<MeasuredLink> link = FiguresOf(Samples());
  ASSERT_TRUE(link);
  EXPECT_DOUBLE_EQ(link->latency_seconds, 0.5e-3);
  EXPECT_NEAR(link->message_seconds, 0.1e-3, 1e-9);
  EXPECT_NEAR(link->bytes_per_second, 1e6, 1) << "2 ms of every message are no bandwidth";
}

TEST(FiguresOf, TakesOneSizeWhereTheSecondIsDisturbed) {
  LinkSamples samples = Samples();
  samples.bulks = {{16e3, 60e-3}, {64e3, 64e-3}};
  EXPECT_NEAR(FiguresOf(samples)->bytes_per_second, 1e6, 1);
  samples.burst_seconds = 0.5e-3;
  EXPECT_EQ(FiguresOf(samples)->message_seconds, 0) << "a burst faster than a round trip";
}

TEST(FiguresOf, NeedsEveryFigure) {
  LinkSamples samples = Samples();
  samples.bulks.clear();
  EXPECT_EQ(FiguresOf(samples), std::nullopt);
  samples = Samples();
  samples.round_trips.clear();
  EXPECT_EQ(FiguresOf(samples), std::nullopt);
  samples = Samples();
  samples.burst_messages = 1;
  EXPECT_EQ(FiguresOf(samples), std::nullopt);
}

MeasureOptions Options() {
  MeasureOptions options;
  options.known = [](PeerId) { return std::nullopt; };
  options.crosses = [](PeerId) { return true; };
  options.longest = Scaled(std::chrono::seconds(20));
  options.of_pair = Scaled(std::chrono::seconds(20));
  return options;
}

class MeasureLinksTest : public testing::TestWithParam<NetworkKind> {
 protected:
  // Every member measures in its own thread, but for those that are `absent`.
  std::vector<std::vector<MeasuredPeer>> Run(Network& network, const ExchangeShape& shape,
                                             const MeasureOptions& options,
                                             const std::set<int>& absent = {}) {
    std::vector<std::vector<MeasuredPeer>> out(network.members.size());
    std::vector<std::jthread> threads;
    for (size_t member = 0; member < out.size(); ++member) {
      if (absent.contains(static_cast<int>(member))) continue;
      threads.emplace_back([&, member] {
        Transport& transport = *network.members[member];
        out[member] = MeasureLinks(transport, shape.node_of, options, SystemClock(), {});
        // Others may still wait for its last answer.
        --running_;
        static_cast<void>(transport.Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                                         [&] { return running_ <= 0; }));
      });
    }
    threads.clear();
    return out;
  }
  std::atomic<int> running_{0};
};

TEST_P(MeasureLinksTest, FindsFiguresOfEveryPairAndLeavesTheExchangeAsItWas) {
  for (const ExchangeMode mode : kModes) {
    const ExchangeShape shape = ShapeOfNodes({2, 1}, {1, 2});
    Network network = GetParam().connect(LayoutFor(mode, shape, PeerId{}), WaitPolicy());
    running_ = shape.m + shape.n;
    const auto measured = Run(network, shape, Options());
    size_t pairs = 0;
    for (const std::vector<MeasuredPeer>& of_member : measured) {
      for (const MeasuredPeer& one : of_member) {
        ++pairs;
        ASSERT_TRUE(one.link) << one.why_not;
        EXPECT_EQ(one.peer.role, Role::kExperts);
        EXPECT_GT(one.link->latency_seconds, 0);
        EXPECT_GT(one.link->bytes_per_second, 0);
        EXPECT_GE(one.link->message_seconds, 0);
      }
    }
    EXPECT_EQ(pairs, 4u) << ToString(mode);
    for (auto& member : network.members) EXPECT_EQ(member->dropped(), 0u);
  }
}

TEST_P(MeasureLinksTest, AsksForNothingThatIsKnownOrSharesMemory) {
  const ExchangeShape shape = ShapeOfNodes({1}, {1, 1});
  Network network =
      GetParam().connect(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}), WaitPolicy());
  running_ = 3;
  const MeasuredLink known{1, 2, 3};
  MeasureOptions options = Options();
  options.known = [&](PeerId) { return known; };
  const auto measured = Run(network, shape, options);
  ASSERT_EQ(measured[0].size(), 2u);
  for (const MeasuredPeer& one : measured[0]) EXPECT_EQ(one.link, known);
  running_ = 3;
  options.crosses = [](PeerId) { return false; };
  EXPECT_TRUE(Run(network, shape, options)[0].empty()) << "its peers share memory";
}

TEST_P(MeasureLinksTest, SaysWhichPeerDoesNotAnswer) {
  const ExchangeShape shape = ShapeOfNodes({1}, {1, 1});
  Network network =
      GetParam().connect(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}), WaitPolicy());
  running_ = 2;
  MeasureOptions options = Options();
  options.longest = Seconds(0.05);
  options.of_pair = Seconds(0.05);
  const auto measured = Run(network, shape, options, {1});
  ASSERT_EQ(measured[0].size(), 2u);
  EXPECT_EQ(measured[0][0].peer, (PeerId{Role::kExperts, Rank{0}}));
  EXPECT_FALSE(measured[0][0].link);
  EXPECT_EQ(measured[0][0].why_not, "its answers took too long");
}

INSTANTIATE_TEST_SUITE_P(All, MeasureLinksTest, testing::ValuesIn(AllNetworks()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace janus::dataplane
