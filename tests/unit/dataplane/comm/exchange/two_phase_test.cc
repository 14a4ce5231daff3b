#include "dataplane/comm/exchange/two_phase.h"

#include <gtest/gtest.h>

#include <cmath>

#include "controllers/exchange/counts.h"
#include "tests/support/random.h"
#include "tests/unit/dataplane/comm/exchange/members.h"
#include "tests/unit/dataplane/comm/exchange/steps.h"

namespace janus::dataplane {
namespace {

struct Kind {
  NetworkKind network;
  ExchangeMode mode;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.network.name << ToString(kind.mode);
}
std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds;
  for (const NetworkKind& network : AllNetworks()) {
    for (const ExchangeMode mode :
         {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel}) {
      kinds.push_back({network, mode});
    }
  }
  return kinds;
}

class TwoPhaseTest : public testing::TestWithParam<Kind> {
 protected:
  Members Connect(const ExchangeShape& shape) {
    return Members(GetParam().network, GetParam().mode, shape);
  }
};

TEST_P(TwoPhaseTest, DeliversAsTheReferenceSays) {
  const uint64_t seed = TestSeed();
  for (uint64_t run = 0; run < 10; ++run) {
    SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed) + " run " + std::to_string(run));
    Random random(MixSeed(seed, run));
    Nodes nodes;
    for (std::vector<int>* role : {&nodes.attention, &nodes.experts}) {
      const int count = random.Between(1, 3);
      for (int i = 0; i < count; ++i) role->push_back(random.Between(1, 3));
    }
    const ExchangeShape shape =
        GatedByRun(ShapeOfNodes(nodes, random.Between(1, 3), random.Between(1, 3),
                                random.Between(1, 9), CompressionOf(run), SumsOf(run)),
                   run);
    Members members = Connect(shape);
    std::vector<StepPlan> steps;
    for (uint64_t step = 1; step <= 12; ++step) steps.push_back(RandomStep(random, shape, step));
    RunSteps(members, shape, steps, MixSeed(seed, run));
    ASSERT_FALSE(HasFailure());
    for (int a = 0; a < shape.m; ++a) EXPECT_EQ(members.attention(a).stale(), 0u);
    for (int e = 0; e < shape.n; ++e) EXPECT_EQ(members.experts(e).stale(), 0u);
    for (auto& member : members.network().members) EXPECT_EQ(member->dropped(), 0u);
  }
}

// Messages between nodes in one round, and how many members send some.
struct Counted {
  uint64_t messages = 0;
  int senders = 0;
  friend bool operator==(const Counted&, const Counted&) = default;
};
void PrintTo(const Counted& counted, std::ostream* out) {
  *out << counted.messages << " messages from " << counted.senders;
}

TEST_P(TwoPhaseTest, ARoundHasOneMessageForEachLane) {
  struct Case {
    Nodes nodes;
    Counted out[3];  // by mode
    Counted back[3];
  };
  for (const Case& c :
       {Case{{{4, 4}, {2, 2, 2, 2}}, {{64, 8}, {8, 2}, {8, 8}}, {{64, 8}, {8, 4}, {8, 8}}},
        Case{{{4, 4}, {4}}, {{32, 8}, {2, 2}, {8, 8}}, {{32, 4}, {2, 1}, {8, 4}}}}) {
    const ExchangeShape shape = ShapeOfNodes(c.nodes, 1, 1, 8);
    Members members = Connect(shape);
    StepPlan step;
    step.step = 1;
    step.takes_part.assign(static_cast<size_t>(shape.m), true);
    Random random(1);
    RoundPlan round = RandomRound(random, shape, KeyOf(1), shape.max_rows);
    uint64_t bytes = 0;
    for (const int rows : round.rows) bytes += static_cast<uint64_t>(rows) * shape.row_bytes();
    step.rounds = {{round}};
    RunSteps(members, shape, {step}, 1);
    ASSERT_FALSE(HasFailure());
    Counted out, back;
    Traffic outward;
    for (int a = 0; a < shape.m; ++a) {
      const Traffic sent = members.attention(a).sent();
      out.messages += sent.messages;
      out.senders += sent.messages > 0;
      outward.bytes += sent.bytes;
    }
    for (int e = 0; e < shape.n; ++e) {
      const Traffic sent = members.experts(e).sent();
      back.messages += sent.messages;
      back.senders += sent.messages > 0;
    }
    const auto mode = static_cast<size_t>(GetParam().mode);
    EXPECT_EQ(out, c.out[mode]);
    EXPECT_EQ(back, c.back[mode]);
    // A row travels once to each node, not to each instance.
    if (GetParam().mode == ExchangeMode::kDirect) {
      EXPECT_EQ(outward.bytes, bytes * static_cast<uint64_t>(shape.n));
    } else {
      const auto nodes = static_cast<uint64_t>(c.nodes.experts.size());
      const auto sections = static_cast<uint64_t>(shape.m) * nodes;
      EXPECT_GE(outward.bytes, bytes * nodes);
      EXPECT_LE(outward.bytes, bytes * nodes + sections * (sizeof(SectionHead) + 63));
    }
  }
}

// With the gate on attention a row goes only to the nodes that compute it.
TEST_P(TwoPhaseTest, RowsGoOnlyWhereTheyAreNeeded) {
  const ExchangeShape shape = WithGate(ShapeOfNodes({{2}, {1, 1, 1, 1}}, 1, 1, 8));
  Members members = Connect(shape);
  StepPlan step;
  step.step = 1;
  step.takes_part.assign(static_cast<size_t>(shape.m), true);
  RoundPlan round;
  round.shape = shape;
  round.key = KeyOf(1);
  round.rows = {8, 8};
  round.owner_of.assign(2, std::vector<int>(static_cast<size_t>(8 * shape.top_k), 2));
  step.rounds = {{round}};
  RunSteps(members, shape, {step}, 1);
  ASSERT_FALSE(HasFailure());
  uint64_t bytes = 0;
  for (int a = 0; a < shape.m; ++a) bytes += members.attention(a).sent().bytes;
  const size_t choices = 2 * 4 * ChoiceBytes(static_cast<size_t>(8 * shape.top_k));
  const size_t padding = 2 * 4 * (sizeof(SectionHead) + 2 * 63);
  EXPECT_GE(bytes, 16 * shape.row_bytes() + choices);
  EXPECT_LE(bytes, 16 * shape.row_bytes() + choices + padding);
}

// One round of 20 rows of each instance. A row's two contributions come from the next two instances
// in turn, so that all have as many.
RoundPlan EvenRound(const ExchangeShape& shape) {
  RoundPlan round;
  round.shape = shape;
  round.key = KeyOf(1);
  round.rows.assign(static_cast<size_t>(shape.m), 20);
  std::vector<int> owners(static_cast<size_t>(20 * shape.top_k));
  for (size_t cell = 0; cell < owners.size(); ++cell) {
    owners[cell] = static_cast<int>(cell) % shape.n;
  }
  round.owner_of.assign(static_cast<size_t>(shape.m), owners);
  return round;
}

// As plans count it.
controllers::ExchangeRound CountedRound(const ExchangeShape& shape, const RoundPlan& plan) {
  controllers::ExchangeRound round;
  round.attention_nodes.assign(shape.node_of.begin(), shape.node_of.begin() + shape.m);
  round.expert_nodes.assign(shape.node_of.begin() + shape.m, shape.node_of.end());
  round.rows = plan.rows.front();
  round.row_bytes = static_cast<double>(shape.row_bytes());
  round.top_k = shape.top_k;
  round.experts = shape.n;
  if (shape.sums.on()) round.sum_bytes = static_cast<double>(shape.reply_bytes());
  if (shape.gate == GateSide::kExperts) return round;
  // The share of rows with a contribution from one of some instances.
  const auto share = [&](auto is_one) {
    int rows = 0;
    const std::vector<int>& owners = plan.owner_of.front();
    for (size_t cell = 0; cell < owners.size(); cell += 2) {
      rows += is_one(owners[cell]) || is_one(owners[cell + 1]) ? 1 : 0;
    }
    return rows / round.rows;
  };
  for (int e = 0; e < shape.n; ++e) {
    round.needed_by_expert.push_back(share([&](int owner) { return owner == e; }));
  }
  for (int node = 0; node <= round.expert_nodes.back(); ++node) {
    round.needed_by_node.push_back(
        share([&](int owner) { return round.expert_nodes[static_cast<size_t>(owner)] == node; }));
  }
  return round;
}

// Messages, senders and bytes of a round in both directions are those that plans and the choice of
// a mode take their times from.
TEST_P(TwoPhaseTest, ARoundHasTheMessagesAndBytesThatPlansCount) {
  for (const Nodes& nodes :
       {Nodes{{4, 4}, {2, 2, 2, 2}}, Nodes{{4, 4}, {4}}, Nodes{{3, 1}, {2, 2, 1}}}) {
    for (const bool has_gate : {false, true}) {
      for (const int bits : {0, 24, 32}) {
        // Which sums a node has to send depends on the routing, unless it has all experts.
        const bool is_direct = GetParam().mode == ExchangeMode::kDirect;
        if (bits > 0 && (is_direct || nodes.experts.size() > 1)) continue;
        ExchangeShape shape =
            ShapeOfNodes(nodes, 1, 1, 20, bits == 0 ? Compression::kFp8 : Compression::kNone,
                         bits == 0 ? FixedPointSums{} : FixedPointSums{bits, {}});
        if (has_gate) shape = WithGate(shape);
        Members members = Connect(shape);
        const RoundPlan round = EvenRound(shape);
        StepPlan step;
        step.step = 1;
        step.takes_part.assign(static_cast<size_t>(shape.m), true);
        step.rounds = {{round}};
        RunSteps(members, shape, {step}, 1);
        ASSERT_FALSE(HasFailure());
        for (const bool is_out : {true, false}) {
          std::vector<Traffic> want(static_cast<size_t>(is_out ? shape.m : shape.n));
          for (const controllers::ExchangeMessage& one :
               controllers::MessagesOf(GetParam().mode, CountedRound(shape, round), is_out)) {
            Traffic& of = want[static_cast<size_t>(is_out ? one.attention : one.expert)];
            ++of.messages;
            of.bytes += static_cast<uint64_t>(std::lround(one.bytes)) - sizeof(Header);
          }
          for (size_t i = 0; i < want.size(); ++i) {
            const int rank = static_cast<int>(i);
            const Traffic sent =
                is_out ? members.attention(rank).sent() : members.experts(rank).sent();
            EXPECT_EQ(sent.messages, want[i].messages) << is_out << " " << rank;
            EXPECT_EQ(sent.bytes, want[i].bytes)
                << is_out << " " << rank << ", gate " << has_gate << ", bits " << bits;
          }
        }
      }
    }
  }
}

// DeepSeek-V3's rows (H 7168, 8 experts) on 2 and 4 expert nodes: the bytes that come back per row.
// Beside them are 16 bytes for each row and node, which say whose contributions a sum has, and the
// heads of messages.
TEST_P(TwoPhaseTest, ASumComesBackOnceFromEachNode) {
  constexpr int kRows = 16;
  constexpr uint64_t kElements = 7168;
  for (const int nodes : {2, 4}) {
    for (const int bits : {0, 32, 24}) {
      ExchangeShape shape =
          ShapeOfNodes({{2}, std::vector<int>(static_cast<size_t>(nodes), 2)}, 1, 1, kRows,
                       Compression::kNone, bits == 0 ? FixedPointSums{} : FixedPointSums{bits, {}});
      shape.hidden = kElements;
      shape.top_k = 8;
      Members members = Connect(shape);
      RoundPlan round;
      round.shape = shape;
      round.key = KeyOf(1);
      round.rows = {kRows, kRows};
      Random random(5);
      for (int a = 0; a < shape.m; ++a) {
        std::vector<int>& owners = round.owner_of.emplace_back();
        // Each row has experts on all nodes.
        for (int cell = 0; cell < kRows * shape.top_k; ++cell) {
          owners.push_back(cell % nodes * 2 + random.Between(0, 1));
        }
      }
      StepPlan step;
      step.step = 1;
      step.takes_part.assign(2, true);
      step.rounds = {{round}};
      RunSteps(members, shape, {step}, 1);
      ASSERT_FALSE(HasFailure());
      uint64_t bytes = 0;
      for (int e = 0; e < shape.n; ++e) bytes += members.experts(e).sent().bytes;
      const auto places = static_cast<uint64_t>(nodes);
      const uint64_t rows = uint64_t{2} * kRows;
      const uint64_t head = 16 * rows * places +
                            static_cast<uint64_t>(shape.m * shape.n) * (sizeof(SectionHead) + 63);
      if (bits == 0) {
        EXPECT_GE(bytes, rows * 114'688);
        EXPECT_LE(bytes, rows * 114'688 + head);
      } else if (GetParam().mode == ExchangeMode::kDirect) {
        EXPECT_GT(bytes, rows * places * kElements * static_cast<uint64_t>(bits) / 8);
      } else {
        const uint64_t want = rows * places * kElements * static_cast<uint64_t>(bits) / 8;
        EXPECT_EQ(want / rows, bits == 32 ? places * 28'672 : places * 21'504);
        EXPECT_GE(bytes, want);
        EXPECT_LE(bytes, want + head);
      }
    }
  }
}

// Gives up a step at every stage, and then makes one that delivers as the reference says.
void GiveUpSteps(Members& members, const ExchangeShape& shape, Random& random) {
  for (uint64_t step = 1; step <= 12; step += 2) {
    members.LetAllTakeTurns();
    StepPlan given_up = RandomStep(random, shape, step);
    given_up.takes_part.assign(static_cast<size_t>(shape.m), true);
    for (int a = 0; a < shape.m; ++a)
      members.attention(a).BeginStep(KeyOf(step), given_up.takes_part);
    for (int e = 0; e < shape.n; ++e)
      members.experts(e).BeginStep(KeyOf(step), given_up.takes_part);
    const RoundPlan& round = given_up.rounds[0][0];
    const int stage = static_cast<int>(step / 2 % 5);
    for (int a = 0; a < (stage == 0 ? 2 : shape.m); ++a) members.PostRows(round, a);
    for (int e = 0; e < shape.n && stage >= 2; ++e) {
      for (int a = 0; a < shape.m; ++a) members.ExpectRows(round, e, a);
    }
    for (int e = 0; e < (stage >= 4 ? shape.n : 3) && stage >= 3; ++e) {
      for (int a = 0; a < shape.m; ++a) members.PostContributions(round, e, a, random);
    }
    members.AbandonAll();
    ASSERT_FALSE(testing::Test::HasFailure());
    members.LetAllTakeTurns(false);
    const StepPlan next = RandomStep(random, shape, step + 1);
    RunSteps(members, shape, {next}, step);
    ASSERT_FALSE(testing::Test::HasFailure()) << "after stage " << stage;
  }
}

// Steps are given up at every stage, and the next step delivers as the reference says.
TEST_P(TwoPhaseTest, DeliversAfterStepsThatWereGivenUp) {
  for (const int bits : {0, 24}) {
    const ExchangeShape shape =
        ShapeOfNodes({{2, 1}, {2, 2}}, 2, 1, 64, Compression::kNone, {bits, {}});
    Members members = Connect(shape);
    Random random(TestSeed());
    GiveUpSteps(members, shape, random);
    ASSERT_FALSE(HasFailure()) << bits;
  }
}

// Tickets to different instances pile up behind one long step. Its end begins all of them before
// the first has ended.
TEST_P(TwoPhaseTest, AnEndBeginsManyStepsAhead) {
  const ExchangeShape shape = ShapeOfNodes({{10}, {2}}, 1, 2, 4);
  Members members = Connect(shape);
  Random random(MixSeed(TestSeed(), 3));
  std::vector<StepPlan> steps;
  for (int a = 0; a < shape.m; ++a) {
    StepPlan step = RandomStep(random, shape, static_cast<uint64_t>(a + 1));
    for (std::vector<RoundPlan>& rounds : step.rounds) {
      for (RoundPlan& round : rounds) {
        round.rows.assign(static_cast<size_t>(shape.m), 0);
        round.rows[static_cast<size_t>(a)] = 2;
        round.owner_of.assign(static_cast<size_t>(shape.m), {});
        round.owner_of[static_cast<size_t>(a)].assign(static_cast<size_t>(2 * shape.top_k), 1);
      }
    }
    step.takes_part.assign(static_cast<size_t>(shape.m), false);
    step.takes_part[static_cast<size_t>(a)] = true;
    steps.push_back(std::move(step));
  }
  RunSteps(members, shape, steps, 1);
}

// A member that has left a step takes what still comes for it. Otherwise a network would keep a
// late message, and its sender could never leave.
TEST_P(TwoPhaseTest, LateMessagesAreTakenWhileAStepIsLeft) {
  const ExchangeShape shape = ShapeOfNodes({{2}, {2}}, 1, 1, 4);
  Members members = Connect(shape);
  const Participants all(static_cast<size_t>(shape.m), true);
  ASSERT_TRUE(members.experts(0).Abandon());
  for (uint64_t step = 1; step <= 5; ++step) {
    Random random(step);
    const RoundPlan round = RandomRound(random, shape, KeyOf(step), shape.max_rows);
    for (int a = 0; a < shape.m; ++a) {
      members.attention(a).BeginStep(KeyOf(step), all);
      members.PostRows(round, a);
    }
    members.LetAllTakeTurns();
    members.AbandonAll();
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TwoPhaseTest, testing::ValuesIn(AllKinds()), [](const auto& info) {
  return info.param.network.name + std::string(ToString(info.param.mode));
});

}  // namespace
}  // namespace janus::dataplane
