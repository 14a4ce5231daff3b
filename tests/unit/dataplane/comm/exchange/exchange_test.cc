#include "dataplane/comm/exchange/exchange.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/contains.h"
#include "tests/support/random.h"
#include "tests/unit/dataplane/comm/exchange/members.h"

namespace janus::dataplane {
namespace {

// A round with one expert instance as the owner of all contributions to a's rows.
RoundPlan PlanOf(const ExchangeShape& shape, const RoundKey& key, std::vector<int> rows,
                 int owner = 0) {
  RoundPlan plan;
  plan.shape = shape;
  plan.key = key;
  plan.rows = std::move(rows);
  for (const int count : plan.rows) {
    plan.owner_of.emplace_back(static_cast<size_t>(count * shape.top_k), owner);
  }
  return plan;
}

// Mode Direct. The two-phase modes are held to the same deliveries in two_phase_test.cc.
class ExchangeTest : public testing::TestWithParam<NetworkKind> {
 protected:
  Members Connect(const ExchangeShape& shape) {
    return Members(GetParam(), ExchangeMode::kDirect, shape);
  }
};

// Of timed devices: what is on a modelled way counts as there later than it is.
TEST_P(ExchangeTest, AMessageCountsAsThereWhenItsSenderSays) {
  const ExchangeShape shape = ShapeFor(1, 2);
  Members members = Connect(shape);
  const RoundPlan plan = PlanOf(shape, KeyOf(1), {0});
  const MonotonicTime ready = MonotonicClock::now() + std::chrono::seconds(5);
  ASSERT_TRUE(members.attention(0).Post(plan.key, 0, ready).ok());
  ArrivedRows arrived;
  ASSERT_TRUE(members.AwaitRows(0, plan.key, Rank{0}, arrived).value());
  EXPECT_EQ(arrived.ready, ready);
  for (int e = 0; e < 2; ++e) {
    members.experts(e).Begin(0, Rank{0}, 0);
    ASSERT_TRUE(members.experts(e).Post(plan.key, Rank{0}, ready + std::chrono::seconds(e)).ok());
  }
  ASSERT_TRUE(members.AwaitAnswers(0, plan.key).value());
  EXPECT_EQ(members.attention(0).Ready(0), ready + std::chrono::seconds(1)) << "of the last";
}

// Where the clocks of two machines differ, only how long after its posting a message counts.
TEST_P(ExchangeTest, AnotherMachinesClockAndFalsifiedTimesDoNoHarm) {
  const ExchangeShape shape = ShapeFor(1, 1);
  Members members = Connect(shape);
  uint64_t step = 0;
  const auto ready_of = [&](int64_t posted_ns, int64_t ready_ns) {
    Header header = MakeHeader(MessageKind::kRows, KeyOf(++step), 0, 0);
    header.posted_ns = posted_ns;
    header.ready_ns = ready_ns;
    EXPECT_TRUE(members.network().attention(0).Post(0, header).ok());
    ArrivedRows arrived;
    EXPECT_TRUE(members.AwaitRows(0, KeyOf(step), Rank{0}, arrived).value());
    return arrived.ready;
  };
  using std::chrono::seconds;
  const MonotonicTime before = MonotonicClock::now();
  const MonotonicTime ready = ready_of(1'000, 3'000'001'000);
  EXPECT_GE(ready, before + seconds(3));
  EXPECT_LE(ready, MonotonicClock::now() + seconds(3));
  const auto comes_within = [&](seconds most, int64_t posted_ns, int64_t ready_ns) {
    const MonotonicTime counts_from = ready_of(posted_ns, ready_ns);
    EXPECT_LE(counts_from, MonotonicClock::now() + most) << posted_ns << " " << ready_ns;
  };
  comes_within(seconds(10), 1'000, INT64_MAX);
  comes_within(seconds(0), INT64_MAX, INT64_MIN);
  comes_within(seconds(10), INT64_MIN, INT64_MAX);
  const int64_t now = std::chrono::nanoseconds(MonotonicClock::now().time_since_epoch()).count();
  comes_within(seconds(10), now, INT64_MAX);
}

TEST_P(ExchangeTest, DeliversAsTheReferenceSays) {
  const uint64_t seed = TestSeed();
  for (uint64_t run = 0; run < 12; ++run) {
    SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed) + " run " + std::to_string(run));
    Random random(MixSeed(seed, run));
    const ExchangeShape shape =
        GatedByRun(ShapeFor(random.Between(1, 4), random.Between(1, 5), random.Between(1, 4),
                            random.Between(1, 9), CompressionOf(run), SumsOf(run)),
                   run);
    Members members = Connect(shape);
    for (uint64_t step = 1; step <= 25; ++step) {
      for (int layer = 0; layer < 2; ++layer) {
        std::vector<RoundPlan> plans;  // of all micro-batches, in flight together
        for (int i = 0; i < shape.micro_batches; ++i) {
          plans.push_back(RandomRound(random, shape, KeyOf(step, layer, i), shape.max_rows));
        }
        for (const RoundPlan& plan : plans) {
          for (int a = shape.m - 1; a >= 0; --a) members.PostRows(plan, a);
        }
        for (const RoundPlan& plan : plans) {
          for (int e = 0; e < shape.n; ++e) {
            for (int a = 0; a < shape.m; ++a) members.ExpectRows(plan, e, a);
            for (int a = 0; a < shape.m; ++a) members.PostContributions(plan, e, a, random);
          }
        }
        for (const RoundPlan& plan : plans) {
          for (int a = 0; a < shape.m; ++a) members.ExpectContributions(plan, a);
        }
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_P(ExchangeTest, DeliversBetweenThreadsThatOnlyWait) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed));
  const ExchangeShape shape = ShapeFor(2, 3, 2, 16);
  constexpr int kRounds = 150;
  Random random(seed);
  std::vector<RoundPlan> plans;
  for (int r = 0; r < kRounds; ++r) {
    plans.push_back(RandomRound(random, shape, KeyOf(static_cast<uint64_t>(1 + r / 2), 0, r % 2),
                                shape.max_rows));
  }
  Members members = Connect(shape);
  std::vector<std::jthread> threads;
  for (int a = 0; a < shape.m; ++a) {
    threads.emplace_back([&, a] {
      for (int r = 0; r < kRounds + 1; ++r) {
        if (r < kRounds) members.PostRows(plans[static_cast<size_t>(r)], a);
        if (r == 0) continue;
        const RoundPlan& plan = plans[static_cast<size_t>(r - 1)];
        members.ExpectContributions(plan, a);
        if (HasFailure()) return;
      }
    });
  }
  for (int e = 0; e < shape.n; ++e) {
    threads.emplace_back([&, e] {
      Random own(MixSeed(seed, static_cast<uint64_t>(e)));
      for (const RoundPlan& plan : plans) {
        const Delivery delivery = Deliver(plan);
        for (int a = 0; a < shape.m; ++a) {
          ArrivedRows arrived;
          const Result<bool> here = members.AwaitRows(e, plan.key, Rank{a}, arrived);
          ASSERT_TRUE(here.ok() && *here);
          const std::vector<std::byte>& want = delivery.rows[static_cast<size_t>(a)];
          ASSERT_EQ(arrived.count, plan.rows[static_cast<size_t>(a)]);
          EXPECT_TRUE(std::equal(want.begin(), want.end(), arrived.rows));
          members.PostContributions(plan, e, a, own);
        }
        if (HasFailure()) return;
      }
    });
  }
}

TEST_P(ExchangeTest, ARoundOfNoRowsIsARoundToo) {
  const ExchangeShape shape = ShapeFor(2, 2);
  Members members = Connect(shape);
  Random random(1);
  const RoundPlan plan = PlanOf(shape, KeyOf(1), {0, 3}, 1);
  for (int a = 0; a < 2; ++a) members.PostRows(plan, a);
  for (int e = 0; e < 2; ++e) {
    for (int a = 0; a < 2; ++a) members.ExpectRows(plan, e, a);
    EXPECT_FALSE(*members.attention(0).Poll(plan.key)) << "not before all have answered";
    for (int a = 0; a < 2; ++a) members.PostContributions(plan, e, a, random);
  }
  for (int a = 0; a < 2; ++a) members.ExpectContributions(plan, a);
  EXPECT_TRUE(members.attention(0).Contributions(0).empty());
}

TEST_P(ExchangeTest, NothingIsThereBeforeItIsPosted) {
  const ExchangeShape shape = ShapeFor(1, 1);
  Members members = Connect(shape);
  ArrivedRows arrived;
  EXPECT_FALSE(*members.experts(0).Poll(KeyOf(1), Rank{0}, arrived));
  members.PostRows(PlanOf(shape, KeyOf(1), {2}), 0);
  EXPECT_FALSE(*members.attention(0).Poll(KeyOf(1)));
}

TEST_P(ExchangeTest, RowsOfAGivenUpRoundAreDroppedAndCounted) {
  const ExchangeShape shape = ShapeFor(1, 1);
  Members members = Connect(shape);
  Random random(1);
  members.PostRows(PlanOf(shape, KeyOf(1), {3}), 0);  // never read: the step was given up
  ArrivedRows arrived;
  const Status dropped = members.network().experts(0).Wait(
      MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
        EXPECT_FALSE(*members.experts(0).Poll(KeyOf(2), Rank{0}, arrived));
        return members.experts(0).stale() == 1;
      });
  ASSERT_TRUE(dropped.ok()) << dropped.ToString();
  const RoundPlan plan = PlanOf(shape, KeyOf(2), {2});
  members.PostRows(plan, 0);
  members.ExpectRows(plan, 0, 0);
  members.PostContributions(plan, 0, 0, random);
  members.ExpectContributions(plan, 0);
  EXPECT_EQ(members.experts(0).stale(), 1u);
}

TEST_P(ExchangeTest, ContributionsOfAGivenUpRoundAreDroppedAndCounted) {
  const ExchangeShape shape = ShapeFor(1, 2);
  Members members = Connect(shape);
  Random random(1);
  const RoundPlan old = PlanOf(shape, KeyOf(1), {3});
  members.PostRows(old, 0);
  const RoundPlan plan = PlanOf(shape, KeyOf(2), {2});
  members.PostRows(plan, 0);
  members.PostContributions(old, 0, 0, random);  // late
  const Status dropped = members.network().attention(0).Wait(
      MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
        EXPECT_FALSE(*members.attention(0).Poll(plan.key));
        return members.attention(0).stale() == 1;
      });
  ASSERT_TRUE(dropped.ok()) << dropped.ToString();
  for (int e = 0; e < 2; ++e) members.PostContributions(plan, e, 0, random);
  members.ExpectContributions(plan, 0);
}

// A round is left at each of its points. Afterwards every slot carries the next step, without
// waiting for readers of the old one.
TEST_P(ExchangeTest, SlotsCarryTheNextStepOnceAllMembersHaveAbandonedTheRound) {
  ExchangeShape shape = ShapeFor(2, 2, 2, 64);
  shape.hidden = 4096;  // more than a transport sends at once
  Members members = Connect(shape);
  members.LetAllTakeTurns();
  Random random(TestSeed());
  for (uint64_t step = 1; step <= 7; ++step) {
    const auto left_at = static_cast<int>(step % 4);
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      const RoundPlan plan = RandomRound(random, shape, KeyOf(2 * step, 1, mb), shape.max_rows);
      for (int a = 0; a < shape.m; ++a) members.PostRows(plan, a);
      if (left_at >= 1) members.ExpectRows(plan, 0, 0);
      if (left_at >= 2) members.PostContributions(plan, 0, 0, random);
      if (left_at >= 3) {
        EXPECT_FALSE(*members.attention(0).Poll(plan.key));
      }
    }
    members.AbandonAll();
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      const RoundPlan plan = RandomRound(random, shape, KeyOf(2 * step + 1, 0, mb), shape.max_rows);
      for (int a = 0; a < shape.m; ++a) members.PostRows(plan, a);
      for (int e = 0; e < shape.n; ++e) {
        for (int a = 0; a < shape.m; ++a) members.ExpectRows(plan, e, a);
        for (int a = 0; a < shape.m; ++a) members.PostContributions(plan, e, a, random);
      }
      for (int a = 0; a < shape.m; ++a) members.ExpectContributions(plan, a);
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(members.experts(1).stale(), 0u);
}

TEST_P(ExchangeTest, NamesWhoHasNotAnswered) {
  const ExchangeShape shape = ShapeFor(1, 3);
  Members members = Connect(shape);
  const RoundPlan plan = PlanOf(shape, KeyOf(1), {2});
  members.PostRows(plan, 0);
  EXPECT_EQ(members.attention(0).Awaited(0), (std::vector<Rank>{Rank{0}, Rank{1}, Rank{2}}));
  members.PostCells(plan, 1, 0, {});
  const Status waited = members.network().attention(0).Wait(
      MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
        EXPECT_FALSE(*members.attention(0).Poll(plan.key));
        return members.attention(0).Awaited(0).size() == 2;
      });
  ASSERT_TRUE(waited.ok()) << waited.ToString();
  EXPECT_EQ(members.attention(0).Awaited(0), (std::vector<Rank>{Rank{0}, Rank{2}}));
}

TEST_P(ExchangeTest, AnAnswerSentTwiceCountsOnce) {
  const ExchangeShape shape = ShapeFor(1, 2);
  Members members = Connect(shape);
  for (uint64_t step = 1; step <= 3; ++step) {
    const RoundPlan plan = PlanOf(shape, KeyOf(step), {2});
    members.PostRows(plan, 0);
    members.PostCells(plan, 0, 0, {2, 0, 3, 1});
    EXPECT_FALSE(*members.attention(0).Poll(plan.key));
    members.PostCells(plan, 0, 0, {2, 0, 3, 1});
    EXPECT_FALSE(*members.attention(0).Poll(plan.key)) << "the other has not answered";
    members.PostCells(plan, 1, 0, {});
    members.ExpectContributions(plan, 0);
  }
}

TEST_P(ExchangeTest, ARoundThatWasMissedIsNamed) {
  const ExchangeShape shape = ShapeFor(2, 1);
  Members members = Connect(shape);
  members.PostRows(PlanOf(shape, KeyOf(8, 3), {1, 1}), 1);
  ArrivedRows arrived;
  const Result<bool> polled = members.AwaitRows(0, KeyOf(7, 2), Rank{1}, arrived);
  ASSERT_EQ(polled.status().code(), StatusCode::kInternal);
  for (const char* part : {"attention 1", "step 8", "layer 3", "step 7", "layer 2"}) {
    EXPECT_TRUE(Contains(polled.status().message(), part));
  }
}

TEST_P(ExchangeTest, AContributionTwiceIsNamed) {
  const ExchangeShape shape = ShapeFor(1, 2);
  Members members = Connect(shape);
  const RoundPlan plan = PlanOf(shape, KeyOf(1), {2});
  members.PostRows(plan, 0);
  members.PostCells(plan, 0, 0, {0, 1, 2, 3});
  members.PostCells(plan, 1, 0, {3});
  const Result<bool> polled = members.AwaitAnswers(0, plan.key);
  ASSERT_EQ(polled.status().code(), StatusCode::kInternal);
  for (const char* part : {"experts 1", "row 1", "slot 1"}) {
    EXPECT_TRUE(Contains(polled.status().message(), part));
  }
}

TEST_P(ExchangeTest, AMissingContributionIsNamed) {
  const ExchangeShape shape = ShapeFor(1, 2);
  Members members = Connect(shape);
  const RoundPlan plan = PlanOf(shape, KeyOf(1), {2});
  members.PostRows(plan, 0);
  members.PostCells(plan, 0, 0, {0, 1});
  members.PostCells(plan, 1, 0, {3});
  const Result<bool> polled = members.AwaitAnswers(0, plan.key);
  ASSERT_EQ(polled.status().code(), StatusCode::kInternal);
  for (const char* part : {"row 1", "slot 0", "step 1"}) {
    EXPECT_TRUE(Contains(polled.status().message(), part));
  }
}

TEST_P(ExchangeTest, AContributionToARowThatIsNotThereIsNamed) {
  const ExchangeShape shape = ShapeFor(1, 1);
  for (const ContributionRef ref :
       {ContributionRef{2, 0, 0}, ContributionRef{0, 2, 0}, ContributionRef{65535, 31, 0}}) {
    Members members = Connect(shape);
    const RoundPlan plan = PlanOf(shape, KeyOf(1), {2});
    members.PostRows(plan, 0);
    members.experts(0).Begin(0, Rank{0}, 1).refs[0] = ref;
    ASSERT_TRUE(members.experts(0).Post(plan.key, Rank{0}, MonotonicTime()).ok());
    const Result<bool> polled = members.AwaitAnswers(0, plan.key);
    ASSERT_EQ(polled.status().code(), StatusCode::kInternal);
    EXPECT_TRUE(Contains(polled.status().message(), "experts 0"));
  }
}

TEST_P(ExchangeTest, CountsThatDoNotFitTheBytesAreNamed) {
  const ExchangeShape shape = ShapeFor(1, 1);
  Members members = Connect(shape);
  Header header = MakeHeader(MessageKind::kRows, KeyOf(1), 0, 5);
  header.bytes = 3 * shape.row_bytes();
  ASSERT_TRUE(members.network().attention(0).Post(0, header).ok());
  ArrivedRows arrived;
  const Result<bool> rows = members.AwaitRows(0, KeyOf(1), Rank{0}, arrived);
  ASSERT_EQ(rows.status().code(), StatusCode::kInternal);
  EXPECT_TRUE(Contains(rows.status().message(), "attention 0"));

  members.PostRows(PlanOf(shape, KeyOf(2), {1}), 0);
  header = MakeHeader(MessageKind::kContributions, KeyOf(2), 0, UINT32_MAX);
  header.bytes = 64;
  ASSERT_TRUE(members.network().experts(0).Post(0, header).ok());
  const Result<bool> back = members.AwaitAnswers(0, KeyOf(2));
  ASSERT_EQ(back.status().code(), StatusCode::kInternal);
  EXPECT_TRUE(Contains(back.status().message(), "experts 0"));
}

// With sums, references must be in order of rows, and each row has one sum.
TEST_P(ExchangeTest, SumsThatAreNotThoseOfTheirContributionsAreNamed) {
  struct Wrong {
    std::vector<ContributionRef> refs;
    int more_bytes;  // beyond those of one sum for each run of a row
    const char* message;
  };
  const std::vector<ContributionRef> good = {{0, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}};
  const std::vector<ContributionRef> backwards = {{1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {0, 0, 0}};
  const std::vector<ContributionRef> apart = {{0, 0, 0}, {1, 1, 0}, {0, 1, 0}, {1, 0, 0}};
  const std::vector<ContributionRef> twice = {{0, 0, 0}, {0, 0, 0}, {1, 1, 0}, {1, 0, 0}};
  const std::vector<ContributionRef> fewer = {{0, 0, 0}, {1, 1, 0}, {1, 0, 0}};
  const char* const kOthers = "are not those in";
  const int sum = static_cast<int>(SumBytes(32, 12));
  for (const Wrong& wrong : {Wrong{good, sum, kOthers}, Wrong{good, -sum, kOthers},
                             Wrong{good, 4, kOthers}, Wrong{backwards, 0, kOthers},
                             Wrong{apart, 0, kOthers}, Wrong{twice, 0, "a second contribution"},
                             Wrong{fewer, 0, "no expert instance sent the contribution"},
                             Wrong{{{0, 2, 0}}, 0, "a contribution to row 0 slot 2"},
                             Wrong{{{2, 0, 0}}, 0, "a contribution to row 2 slot 0"}}) {
    const ExchangeShape shape = ShapeFor(1, 1, 1, 8, Compression::kNone, {32, {}});
    Members members = Connect(shape);
    const RoundPlan plan = PlanOf(shape, KeyOf(1), {2});
    members.PostRows(plan, 0);
    const auto out = members.experts(0).Begin(0, Rank{0}, static_cast<int>(wrong.refs.size()));
    std::ranges::copy(wrong.refs, out.refs.begin());
    size_t runs = 0;
    for (size_t i = 0; i < wrong.refs.size(); ++i) {
      runs += i == 0 || wrong.refs[i].row != wrong.refs[i - 1].row;
    }
    Header header = MakeHeader(MessageKind::kContributions, plan.key, 0,
                               static_cast<uint32_t>(wrong.refs.size()));
    header.bytes = SummedBytes(wrong.refs.size(), runs, shape.reply_bytes()) +
                   static_cast<size_t>(static_cast<int64_t>(wrong.more_bytes));
    ASSERT_TRUE(members.network().experts(0).Post(0, header).ok());
    const Result<bool> back = members.AwaitAnswers(0, plan.key);
    ASSERT_EQ(back.status().code(), StatusCode::kInternal) << wrong.message;
    EXPECT_TRUE(Contains(back.status().message(), wrong.message)) << back.status().message();
  }
}

TEST_P(ExchangeTest, MoreRowsThanARoundHoldsAreNamed) {
  const ExchangeShape shape = ShapeFor(1, 1, 1, 2);
  Members members = Connect(shape);
  Header header = MakeHeader(MessageKind::kRows, KeyOf(1), 0, 3);
  header.bytes = 2 * shape.row_bytes();
  ASSERT_TRUE(members.network().attention(0).Post(0, header).ok());
  ArrivedRows arrived;
  EXPECT_EQ(members.AwaitRows(0, KeyOf(1), Rank{0}, arrived).status().code(),
            StatusCode::kInternal);
}

TEST_P(ExchangeTest, ChoicesThatMakeNoSenseAreNamed) {
  const ExchangeShape shape = WithGate(ShapeFor(1, 2));
  Members members = Connect(shape);
  Transport& transport = members.network().attention(0);
  const int to_first = shape.micro_batches;  // the slot with the rows for expert instance 0
  uint64_t step = 0;
  const auto says = [&](const std::string& what) {
    ArrivedRows arrived;
    const Status failed = members.AwaitRows(0, KeyOf(step), Rank{0}, arrived).status();
    EXPECT_EQ(failed.code(), StatusCode::kInternal);
    EXPECT_TRUE(Contains(failed.message(), "attention 0"));
    EXPECT_TRUE(Contains(failed.message(), what)) << failed.ToString();
  };
  const auto post = [&](uint32_t count, size_t bytes) {
    Header header = MakeHeader(MessageKind::kRows, KeyOf(++step), 0, count);
    header.bytes = bytes;
    ASSERT_TRUE(transport.Post(to_first, header).ok());
  };

  const ChosenExperts chosen = members.attention(0).Choices(0, 1);
  std::ranges::fill(chosen.ids, uint16_t{7});
  ASSERT_TRUE(members.attention(0).Post(KeyOf(++step), 1, MonotonicTime()).ok());
  says("expert 7");

  // Two rows choose the first instance's expert, and one comes.
  std::vector<std::byte> all(RowSlotBytes(shape.size()));
  const ChosenExperts both = WriteChoices(all, 2, shape.top_k, shape.row_bytes());
  std::ranges::fill(both.ids, uint16_t{0});
  const std::vector<int32_t> places = {0, -1};
  post(2, WriteSelected(all, 2, shape.top_k, shape.row_bytes(), places, 1,
                        transport.Payload(to_first)));
  says("1 of 2 rows came");

  post(2, 3);
  says("in 3 bytes");
  post(2, RowSlotBytes(shape.size()));
  says("2 rows with their experts");
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeTest, testing::ValuesIn(AllNetworks()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
