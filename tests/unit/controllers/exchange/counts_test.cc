#include "controllers/exchange/counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/exchange_lanes.h"

namespace janus::controllers {
namespace {

constexpr ExchangeMode kDirect = ExchangeMode::kDirect;
constexpr ExchangeMode kSingle = ExchangeMode::kTwoPhaseSingle;
constexpr ExchangeMode kParallel = ExchangeMode::kTwoPhaseParallel;
constexpr ExchangeMode kModes[] = {kDirect, kSingle, kParallel};

// DeepSeek-V3's rows.
FullRound RoundOf(double rows) {
  FullRound round;
  round.rows = rows;
  round.row_bytes = 7168 * 2;
  round.top_k = 8;
  round.experts = 256;
  return round;
}

// The same instances, listed.
ExchangeRound Listed(const FullNodes& nodes, const FullRound& round) {
  ExchangeRound out;
  static_cast<RoundRows&>(out) = round;
  for (int a = 0; a < nodes.m; ++a) out.attention_nodes.push_back(a / nodes.attention_per_node);
  for (int e = 0; e < nodes.n; ++e) out.expert_nodes.push_back(e / nodes.experts_per_node);
  if (round.gate == GateSide::kExperts) return out;
  out.needed_by_expert.assign(static_cast<size_t>(nodes.n), round.needed_by_expert);
  out.needed_by_node.assign(static_cast<size_t>(nodes.ExpertNodes()), round.needed_by_node);
  if (nodes.LastExperts() < nodes.experts_per_node) {
    out.needed_by_node.back() = round.needed_by_last;
  }
  return out;
}

// What each instance that sends or receives has.
BusiestCounts BusiestOf(const std::vector<ExchangeMessage>& messages) {
  std::map<int, std::pair<double, double>> attention;
  std::map<int, std::pair<double, double>> experts;
  for (const ExchangeMessage& one : messages) {
    attention[one.attention].first += 1;
    attention[one.attention].second += one.bytes;
    experts[one.expert].first += 1;
    experts[one.expert].second += one.bytes;
  }
  BusiestCounts out;
  for (const auto& [rank, sum] : attention) {
    out.attention_messages = std::max(out.attention_messages, sum.first);
    out.attention_bytes = std::max(out.attention_bytes, sum.second);
  }
  for (const auto& [rank, sum] : experts) {
    out.expert_messages = std::max(out.expert_messages, sum.first);
    out.expert_bytes = std::max(out.expert_bytes, sum.second);
  }
  return out;
}

std::vector<FullRound> RoundsOfAllKinds() {
  std::vector<FullRound> rounds;
  for (const bool has_gate : {false, true}) {
    for (const double sum_bytes : {0.0, 7168.0 * 3}) {
      FullRound& round = rounds.emplace_back(RoundOf(5.5));
      round.sum_bytes = sum_bytes;
      if (!has_gate) continue;
      round.gate = GateSide::kAttention;
      round.needed_by_expert = 0.2;
      round.needed_by_node = 0.6;
      round.needed_by_last = 0.3;
    }
  }
  return rounds;
}

TEST(CountsOf, AreThoseOfTheBusiestInstanceOfAllMessages) {
  for (const FullRound& round : RoundsOfAllKinds()) {
    for (const auto& [attention_each, experts_each] :
         {std::pair{1, 1}, {1, 4}, {4, 1}, {2, 3}, {3, 2}, {4, 4}, {5, 8}, {8, 8}, {1024, 4}}) {
      for (int m = 1; m <= 21; ++m) {
        for (int n = 1; n <= 21; ++n) {
          const FullNodes nodes = {m, n, attention_each, experts_each};
          for (const ExchangeMode mode : kModes) {
            const BusiestEnds ends = BusiestEndsOf(mode, nodes);
            for (const bool is_out : {true, false}) {
              const std::string of = std::to_string(m) + "A" + std::to_string(n) + "E of " +
                                     std::to_string(attention_each) + " and " +
                                     std::to_string(experts_each) + ", " +
                                     std::string(ToString(mode)) + (is_out ? " out" : " back");
              const BusiestCounts got = CountsOf(mode, nodes, ends, round, is_out);
              const BusiestCounts want = BusiestOf(MessagesOf(mode, Listed(nodes, round), is_out));
              ASSERT_EQ(got.attention_messages, want.attention_messages) << of;
              ASSERT_EQ(got.expert_messages, want.expert_messages) << of;
              ASSERT_NEAR(got.attention_bytes, want.attention_bytes, 1e-6) << of;
              ASSERT_NEAR(got.expert_bytes, want.expert_bytes, 1e-6) << of;
            }
          }
        }
      }
    }
  }
}

TEST(BusiestEndsOf, GatherAsManyAsTheFullestLaneCarries) {
  for (const ExchangeMode mode : {kSingle, kParallel}) {
    for (const int each : {1, 3, 8}) {
      for (int m = 1; m <= 20; ++m) {
        for (int n = 1; n <= 20; ++n) {
          const FullNodes nodes = {m, n, each, 2};
          const ExchangeRound listed = Listed(nodes, RoundOf(1));
          size_t most = 0;
          for (const ExchangeLane& lane :
               LanesBetween(mode, listed.attention_nodes, listed.expert_nodes)) {
            most = std::max(most, lane.attention.size());
          }
          ASSERT_EQ(BusiestEndsOf(mode, nodes).gathered, static_cast<int>(most))
              << m << "A" << n << "E of " << each;
        }
      }
    }
  }
}

TEST(LeastCountsOf, AreNoMoreThanWithAnyNumberOfAttentionInstances) {
  constexpr double kAllRows = 300;
  const auto expect = [](double least, double counted, const std::string& of) {
    ASSERT_LE(least, counted * (1 + 1e-12)) << of;
  };
  for (const FullRound& of : RoundsOfAllKinds()) {
    for (const int n : {1, 3, 8, 20}) {
      for (const int each : {1, 3, 8}) {
        for (const ExchangeMode mode : kModes) {
          for (const bool is_out : {true, false}) {
            for (const int fewest : {1, 5}) {
              for (int m = fewest; m <= 24; ++m) {
                FullNodes nodes = {m, n, each, each};
                const BusiestCounts least =
                    LeastCountsOf(mode, nodes, fewest, of, kAllRows, is_out);
                for (nodes.m = fewest; nodes.m <= m; ++nodes.m) {
                  FullRound round = of;
                  round.rows = kAllRows / nodes.m;
                  const BusiestCounts counts =
                      CountsOf(mode, nodes, BusiestEndsOf(mode, nodes), round, is_out);
                  const std::string name = std::string(ToString(mode)) + " " +
                                           std::to_string(nodes.m) + "A" + std::to_string(n) +
                                           "E of " + std::to_string(each);
                  expect(least.attention_messages, counts.attention_messages, name);
                  expect(least.expert_messages, counts.expert_messages, name);
                  expect(least.attention_bytes, counts.attention_bytes, name);
                  expect(least.expert_bytes, counts.expert_bytes, name);
                  expect(least.attention_handed, counts.attention_handed, name);
                  expect(least.expert_handed, counts.expert_handed, name);
                  if (testing::Test::HasFatalFailure()) return;
                }
              }
            }
          }
        }
      }
    }
  }
}

// 2 nodes of 4 attention instances, outward and back: messages, and the instances that send some.
TEST(MessagesOf, AreThoseThatDirectAndTheLanesHave) {
  struct Case {
    FullNodes nodes;
    ExchangeMode mode;
    size_t messages;
    size_t attention, experts;  // senders
  };
  const FullNodes many = {8, 8, 4, 2};  // to 4 nodes of 2
  const FullNodes one = {8, 4, 4, 4};   // to 1 node of 4
  for (const Case& c :
       {Case{many, kDirect, 64, 8, 8}, Case{many, kSingle, 8, 2, 4}, Case{many, kParallel, 8, 8, 8},
        Case{one, kDirect, 32, 8, 4}, Case{one, kSingle, 2, 2, 1}, Case{one, kParallel, 8, 8, 4}}) {
    for (const bool is_out : {true, false}) {
      const std::vector<ExchangeMessage> messages =
          MessagesOf(c.mode, Listed(c.nodes, RoundOf(4)), is_out);
      std::set<int> attention;
      std::set<int> experts;
      for (const ExchangeMessage& message : messages) {
        attention.insert(message.attention);
        experts.insert(message.expert);
      }
      EXPECT_EQ(messages.size(), c.messages) << ToString(c.mode);
      EXPECT_EQ(attention.size(), c.attention) << ToString(c.mode);
      EXPECT_EQ(experts.size(), c.experts) << ToString(c.mode);
    }
  }
}

// Bytes that come back per row from 2 and 4 expert nodes: contributions, and sums of 32 and 24
// bits. At most 16 bytes of references for each row and node, and the heads, are beside them.
TEST(MessagesOf, ASumComesBackOnceFromEachNode) {
  constexpr double kRows = 1000;
  for (const int count : {2, 4}) {
    const FullNodes nodes = {2, 2 * count, 2, 2};
    for (const auto& [bits, bytes] :
         {std::pair{0, 114'688}, {32, count * 28'672}, {24, count * 21'504}}) {
      FullRound round = RoundOf(kRows);
      round.sum_bytes = 7168.0 * bits / 8;
      double sum = 0;
      for (const ExchangeMessage& one : MessagesOf(kParallel, Listed(nodes, round), false)) {
        sum += one.bytes;
      }
      const double per_row = sum / (kRows * nodes.m);
      EXPECT_LE(per_row, bytes + 16 * count + 1) << count << " nodes, " << bits << " bits";
      // A row may need no expert of a node.
      const double needed = bits == 0 ? 1 : NeededShare(256, 8, 256.0 / count);
      EXPECT_GE(per_row, bytes * needed) << count << " nodes, " << bits << " bits";
    }
  }
}

}  // namespace
}  // namespace janus::controllers
