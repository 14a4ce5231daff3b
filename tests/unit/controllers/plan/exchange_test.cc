#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/plan/terms.h"
#include "tests/unit/controllers/plan/settings.h"

namespace janus::controllers {
namespace {

ExchangeTimes Times(const Configuration& how, double rows) {
  return TimesOfExchange(On("deepseek-v3", "H200"), how, rows);
}

// With one expert node, a node's rows leave over all its cards, not over a single one.
TEST(Exchange, TwoPhasesUseEveryCard) {
  const Setting setting = On("deepseek-v3", "H200");
  Configuration how = Make(8, 8);
  how.mode = ExchangeMode::kTwoPhaseParallel;
  constexpr double kRows = 8192;
  const double card = kRows / 8 * RowBytes(setting.model);  // from one GPU's own rows
  const double gathered =
      CollectiveSeconds(setting.experts.all_gather, 8, kRows * RowBytes(setting.model));
  EXPECT_NEAR(Times(how, kRows).out, HopSeconds(setting.attention.dispatch, 1, card) + gathered,
              1e-9);
  // A second expert node gets the same rows once more, from the same cards.
  how.n = 16;
  const double again = Times(how, kRows).out - Times(Make(8, 8), 0).out;
  EXPECT_GT(again, 2 * card / setting.attention.dispatch.network_bytes_per_second);
  how.mode = ExchangeMode::kDirect;
  EXPECT_GT(Times(how, kRows).out, 2 * again) << "every row to each of sixteen";
}

TEST(Exchange, Fp8HalvesWhatContributionsWeigh) {
  constexpr double kRows = 16384;
  Configuration how = Make(8, 16);
  const ExchangeTimes bf16 = Times(how, kRows);
  how.wire = WireFormat::kFp8;
  const ExchangeTimes fp8 = Times(how, kRows);
  const ExchangeTimes none = Times(how, 0);
  EXPECT_NEAR((fp8.back - none.back) / (bf16.back - none.back), 0.516, 1e-3);
  EXPECT_NEAR((fp8.out - none.out) / (bf16.out - none.out), 0.516, 1e-3);
  how.sum = SumRule::kFixedPoint;
  const double integers = Times(how, kRows).back;
  how.wire = WireFormat::kBf16;
  EXPECT_EQ(Times(how, kRows).back, integers) << "sums are integers whatever the wire";
}

// A search that skips configurations by this bound misses none that is good enough.
TEST(Exchange, TheLeastIsNoMoreThanWithAnyNumberOfInstances) {
  const Setting setting = On("deepseek-v3", "H200");
  for (const ExchangeMode mode :
       {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel}) {
    for (const SumRule sum : {SumRule::kContributions, SumRule::kFixedPoint}) {
      for (const int n : {7, 16, 40}) {
        Configuration how = Make(48, n);
        how.mode = mode;
        how.sum = sum;
        const ExchangeTimes least = LeastExchange(setting, how, 2, 4096);
        for (how.m = 2; how.m <= 48; ++how.m) {
          const ExchangeTimes times = TimesOfExchange(setting, how, 4096);
          EXPECT_LE(least.out, times.out * (1 + 1e-9)) << how.m << "A" << n << "E";
          EXPECT_LE(least.back, times.back * (1 + 1e-9)) << how.m << "A" << n << "E";
        }
      }
    }
  }
}

TEST(Configuration, IsServedWhereNothingOfItIsOnlyPlanned) {
  EXPECT_TRUE(IsServed(Make(4, 12, 3)));
  Configuration how = Make(4, 12);
  how.wire = WireFormat::kFp8;
  how.sum = SumRule::kFixedPoint;
  EXPECT_TRUE(IsServed(how));
  how.pools = 2;
  EXPECT_EQ(NameOf(how), "2 x 4A12E");
  EXPECT_FALSE(IsServed(how));
  for (const auto change : std::initializer_list<void (*)(Configuration&)>{
           [](Configuration& c) { c.mode = ExchangeMode::kTwoPhaseParallel; },
           [](Configuration& c) { c.gate = GateSide::kAttention; },
           [](Configuration& c) { c.tp_attention = 2; },
           [](Configuration& c) { c.tp_experts = 2; }}) {
    Configuration changed = Make(4, 12);
    change(changed);
    EXPECT_FALSE(IsServed(changed));
  }
}

}  // namespace
}  // namespace janus::controllers
