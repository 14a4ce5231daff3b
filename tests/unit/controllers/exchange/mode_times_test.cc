#include "controllers/exchange/mode_times.h"

#include <gtest/gtest.h>

#include <numeric>

namespace janus::controllers {
namespace {

constexpr ExchangeMode kDirect = ExchangeMode::kDirect;
constexpr ExchangeMode kSingle = ExchangeMode::kTwoPhaseSingle;
constexpr ExchangeMode kParallel = ExchangeMode::kTwoPhaseParallel;

// Nodes of equal sizes; every instance has a card.
ExchangeRound RoundOf(int attention_nodes, int attention_each, int expert_nodes, int experts_each,
                      double rows = 8) {
  ExchangeRound round;
  for (int a = 0; a < attention_nodes * attention_each; ++a) {
    round.attention_nodes.push_back(a / attention_each);
  }
  for (int e = 0; e < expert_nodes * experts_each; ++e) {
    round.expert_nodes.push_back(e / experts_each);
  }
  round.cards.resize(round.attention_nodes.size() + round.expert_nodes.size());
  std::iota(round.cards.begin(), round.cards.end(), 0);
  round.rows = rows;
  round.row_bytes = 1024;
  round.top_k = 4;
  round.experts = 64;
  return round;
}

NodeLinks LinksOf(const ExchangeRound& round, const MeasuredLink& link) {
  return NodeLinks(static_cast<size_t>(round.attention_nodes.back()) + 1,
                   std::vector<NodeLink>(static_cast<size_t>(round.expert_nodes.back()) + 1,
                                         NodeLink{link, false}));
}

// 20 Mbit/s: bytes decide.
constexpr MeasuredLink kSlow = {1e-4, 2.5e6, 0};
// Messages decide.
constexpr MeasuredLink kDear = {1e-4, 1e9, 2e-3};

TEST(MessagesOneWay, AreThoseThatDirectAndTheLanesHave) {
  const ExchangeRound round = RoundOf(2, 4, 4, 2);
  EXPECT_EQ(MessagesOneWay(kDirect, round), 64);
  EXPECT_EQ(MessagesOneWay(kSingle, round), 8);
  EXPECT_EQ(MessagesOneWay(kParallel, round), 8);
  const ExchangeRound one_node = RoundOf(2, 4, 1, 4);
  EXPECT_EQ(MessagesOneWay(kDirect, one_node), 32);
  EXPECT_EQ(MessagesOneWay(kSingle, one_node), 2);
  EXPECT_EQ(MessagesOneWay(kParallel, one_node), 8);
}

TEST(RoundSeconds, OfDirectAreItsBytesOverTheBusiestCard) {
  // One instance sends 64 rows to two, and gets 4 contributions to each row back.
  const ExchangeRound round = RoundOf(1, 1, 2, 1, 64);
  const double out = 2 * (64 * 1024 + 64) / 2.5e6;
  const double back = 4 * 64 * (1024 + 4.0) / 2.5e6 + 2 * 64 / 2.5e6;
  EXPECT_NEAR(RoundSeconds(kDirect, round, LinksOf(round, kSlow)), out + back + 2e-4, 1e-6);
}

// DeepSeek-V3 on H200s: 16 attention and 32 expert instances in nodes of 8, 64 rows each, cards of
// 50 GB/s.
ExchangeRound OfGpus(double rows = 64) {
  ExchangeRound round = RoundOf(2, 8, 4, 8, rows);
  round.row_bytes = 14336;
  round.top_k = 8;
  round.experts = 256;
  round.in_gpus = true;
  return round;
}
constexpr MeasuredLink kFast = {2e-6, 50e9, 1e-6};

double Bytes(const std::vector<ExchangeMessage>& messages) {
  return std::accumulate(messages.begin(), messages.end(), 0.0,
                         [](double sum, const ExchangeMessage& one) { return sum + one.bytes; });
}

TEST(ReadsOf, AreOfEachRowOnceForEachNodeAndOfEachContributionOnce) {
  const ExchangeRound round = OfGpus();
  const double rows = 16 * 64 * 14336;
  EXPECT_NEAR(Bytes(ReadsOf(kDirect, round, true)), 32 * rows, 1);
  for (const ExchangeMode mode : {kSingle, kParallel}) {
    EXPECT_NEAR(Bytes(ReadsOf(mode, round, true)), 4 * rows, 1);
    EXPECT_LT(Bytes(MessagesOf(mode, round, true)), rows / 100) << "heads alone";
  }
  for (const ExchangeMode mode : kExchangeModes) {
    EXPECT_NEAR(Bytes(ReadsOf(mode, round, false)), 8 * rows, 1);
  }
  ExchangeRound through_hosts = round;
  through_hosts.in_gpus = false;
  EXPECT_TRUE(ReadsOf(kParallel, through_hosts, true).empty());
}

TEST(RoundSeconds, OnGpusTwoPhasesPayWhereRowsStayThere) {
  ExchangeRound round = OfGpus();
  const NodeLinks links = LinksOf(round, kFast);
  // Rows fill the busiest card: an attention instance's, from which all expert instances read.
  const double direct = 32 * 64 * 14336 / 50e9;
  EXPECT_NEAR(RoundSeconds(kDirect, round, links), direct + 8 * 64 * 14336 / 50e9, 5e-5);
  EXPECT_LT(RoundSeconds(kParallel, round, links), 0.6 * RoundSeconds(kDirect, round, links));
  EXPECT_LT(RoundSeconds(kParallel, round, links), RoundSeconds(kSingle, round, links));
  // Small rounds wait for the hand-overs within nodes.
  const ExchangeRound small = OfGpus(2);
  EXPECT_GT(RoundSeconds(kParallel, small, links), RoundSeconds(kDirect, small, links));
  // Bundles in host memory cost more than they save.
  round.in_gpus = false;
  EXPECT_GT(RoundSeconds(kParallel, round, links), RoundSeconds(kDirect, round, links));
}

TEST(RoundSeconds, WithTheGateOnAttentionOnlyNeededRowsCount) {
  ExchangeRound round = RoundOf(1, 1, 2, 1, 64);
  const double back = 4 * 64 * (1024 + 4.0) / 2.5e6 + 2 * 64 / 2.5e6;
  round.needed_by_expert = round.needed_by_node = {0.25, 0.5};
  // Six bytes for each of four choices, and four for the number of rows.
  const double out = (64 * 1024 * 0.75 + 2 * (64 * 4 * 6 + 4 + 64)) / 2.5e6;
  EXPECT_NEAR(RoundSeconds(kDirect, round, LinksOf(round, kSlow)),
              out + back + 2e-4 + out * 2.5e6 / 4e9, 1e-6)
      << "with the sender's copies";
  const double gated = RoundSeconds(kParallel, round, LinksOf(round, kSlow));
  round.needed_by_expert = round.needed_by_node = {};
  EXPECT_LT(gated, RoundSeconds(kParallel, round, LinksOf(round, kSlow)) - 0.01);
}

TEST(RoundSeconds, OfExactSumsComeBackOnceFromEachNode) {
  // Four instances of one node compute all contributions to 64 rows.
  ExchangeRound round = RoundOf(1, 1, 1, 4, 64);
  const auto back = [&](ExchangeMode mode) {
    const double both = RoundSeconds(mode, round, LinksOf(round, kSlow));
    ExchangeRound silent = round;
    silent.sum_bytes = 1e-9;
    return both - RoundSeconds(mode, silent, LinksOf(round, kSlow));
  };
  round.sum_bytes = 4096;
  EXPECT_NEAR(back(kSingle), 64 * 4096 / 2.5e6, 3e-4) << "and its copies";
  // An instance with 16 of 64 experts has something for so many of the rows.
  const double some = 1 - 48.0 / 64 * 47 / 63 * 46 / 62 * 45 / 61;
  EXPECT_NEAR(back(kDirect), 4 * 64 * 4096 * some / 2.5e6, 1e-3);
}

TEST(RoundSeconds, CountWhatACardReceivesToo) {
  // Four instances send to one: its card is the busiest on the way out.
  const ExchangeRound round = RoundOf(4, 1, 1, 1, 64);
  const double out = 4 * (64 * 1024 + 64) / 2.5e6;
  EXPECT_GT(RoundSeconds(kDirect, round, LinksOf(round, kSlow)), out);
}

TEST(RoundSeconds, OfInstancesBehindOneCardAddUp) {
  ExchangeRound round = RoundOf(1, 4, 1, 4, 64);
  const NodeLinks links = LinksOf(round, kSlow);
  const double apart = RoundSeconds(kParallel, round, links);
  for (size_t i = 0; i < 8; ++i) round.cards[i] = i < 4 ? 0 : 1;
  EXPECT_GT(RoundSeconds(kParallel, round, links), 3.5 * apart);
}

TEST(RoundSeconds, CountEveryFurtherMessageOfAnInstance) {
  // Two instances send three messages each, and get as many back.
  const ExchangeRound round = RoundOf(1, 2, 3, 1, 1);
  EXPECT_NEAR(RoundSeconds(kDirect, round, LinksOf(round, kDear)), 2e-4 + 4 * 2e-3, 1e-9);
}

TEST(RoundSeconds, OfMessagesAndOfBytesPassTogether) {
  // A card carries one message while its instance prepares the next.
  const ExchangeRound round = RoundOf(1, 2, 3, 1, 8);
  MeasuredLink link = kSlow;
  const double bytes = RoundSeconds(kDirect, round, LinksOf(round, link));
  link.message_seconds = 1e-3;
  EXPECT_EQ(RoundSeconds(kDirect, round, LinksOf(round, link)), bytes);
  link.message_seconds = 1;
  EXPECT_NEAR(RoundSeconds(kDirect, round, LinksOf(round, link)), 4 + 2e-4, 1e-9);
}

TEST(RoundSeconds, OfTheSlowestLinkCount) {
  const ExchangeRound round = RoundOf(2, 2, 2, 2, 64);
  NodeLinks links = LinksOf(round, kSlow);
  const double even = RoundSeconds(kParallel, round, links);
  links[1][0].link.bytes_per_second /= 4;
  EXPECT_GT(RoundSeconds(kParallel, round, links), 2 * even);
  links[1][0].is_inside = true;
  EXPECT_LE(RoundSeconds(kParallel, round, links), even) << "it needs no network";
}

constexpr ExchangeWay OnExperts(ExchangeMode mode) {
  return {mode, GateSide::kExperts};
}
constexpr ExchangeWay OnAttention(ExchangeMode mode) {
  return {mode, GateSide::kAttention};
}
const std::vector<ExchangeWay> kAllWays = {OnExperts(kDirect),   OnExperts(kSingle),
                                           OnExperts(kParallel), OnAttention(kDirect),
                                           OnAttention(kSingle), OnAttention(kParallel)};

TEST(TimesOfModes, HaveAFastestModeForEveryKindOfNodes) {
  const auto fastest = [](const ExchangeRound& round, const MeasuredLink& link) {
    return FastestWay(TimesOfWays(round, LinksOf(round, link)), kAllWays, nullptr, 0).mode;
  };
  EXPECT_EQ(fastest(RoundOf(2, 4, 4, 2, 64), kSlow), kParallel);
  EXPECT_EQ(fastest(RoundOf(1, 4, 1, 1, 1), kDear), kSingle)
      << "one message reaches the only expert instance, not four";
  // One of two instances is the end of lanes to three of five nodes, and sends both's rows there.
  EXPECT_EQ(fastest(RoundOf(1, 2, 5, 1, 64), kSlow), kDirect);
}

TEST(TimesOfWays, AreThoseOfBothSides) {
  ExchangeRound round = RoundOf(2, 2, 4, 1, 64);
  const NodeLinks links = LinksOf(round, kSlow);
  for (const ExchangeWay& way : kAllWays) {
    EXPECT_EQ(TimesOfWays(round, links).of(way), RoundSeconds(way.mode, round, links));
  }
  ExchangeRound gated = round;
  gated.needed_by_expert = gated.needed_by_node = std::vector<double>(4, 0.5);
  const WayTimes times = TimesOfWays(gated, links);
  EXPECT_EQ(times.of(OnExperts(kParallel)), RoundSeconds(kParallel, round, links));
  EXPECT_EQ(times.of(OnAttention(kParallel)), RoundSeconds(kParallel, gated, links));
  EXPECT_LT(times.of(OnAttention(kParallel)), times.of(OnExperts(kParallel)));
}

TEST(FastestWay, KeepsTheCurrentOneUntilAnotherGains) {
  const WayTimes times{{ModeTimes{{1.0, 2.0, 0.9}}, ModeTimes{{0.8, 2.0, 0.5}}}};
  const std::vector<ExchangeWay> experts(kAllWays.begin(), kAllWays.begin() + 3);
  const ExchangeWay current = OnExperts(kDirect);
  EXPECT_EQ(FastestWay(times, experts, nullptr, 0.25), OnExperts(kParallel));
  EXPECT_EQ(FastestWay(times, experts, &current, 0.25), current);
  EXPECT_EQ(FastestWay(times, experts, &current, 0.05), OnExperts(kParallel));
  EXPECT_EQ(FastestWay(times, kAllWays, &current, 0.25), OnAttention(kParallel));
  EXPECT_EQ(FastestWay(times, kAllWays, &current, 0.6), current);
  EXPECT_EQ(FastestWay(times, {current, OnExperts(kSingle)}, nullptr, 0), current);
  EXPECT_EQ(FastestWay(times, {OnExperts(kSingle)}, &current, 0.9), OnExperts(kSingle))
      << "the current one has no room";
}

TEST(FastestWay, IsTheSimplestOfEquals) {
  const ModeTimes equal{{1.0, 1.005, 1.0}};
  EXPECT_EQ(FastestWay({{equal, equal}}, kAllWays, nullptr, 0), OnExperts(kDirect));
  const ModeTimes less{{0.99, 0.995, 0.992}};
  EXPECT_EQ(FastestWay({{ModeTimes{{1.5, 0.999, 1.5}}, less}}, kAllWays, nullptr, 0),
            OnExperts(kSingle));
  EXPECT_EQ(FastestWay({{equal, ModeTimes{{0.9, 0.9, 0.9}}}}, kAllWays, nullptr, 0),
            OnAttention(kDirect));
}

}  // namespace
}  // namespace janus::controllers
