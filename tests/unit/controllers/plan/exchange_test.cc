#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/exchange/counts.h"
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
  const double section = kRows / 8 * RowBytes(setting.model) + 128;  // one GPU's own rows
  const double gathered = CollectiveSeconds(setting.experts.all_gather, 8, 8 * (section + 64));
  EXPECT_NEAR(Times(how, kRows).out,
              HopSeconds(setting.attention.dispatch, 1, section + 64) + gathered, 1e-8);
  // A second expert node gets the same rows once more, from the same cards.
  how.n = 16;
  const double again = Times(how, kRows).out - Times(Make(8, 8), 0).out;
  EXPECT_GT(again, 2 * section / setting.attention.dispatch.network_bytes_per_second);
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

// Rows and sums that travel are those of the busiest card; the gate on attention adds no message.
TEST(Exchange, WithTheGateOnAttentionRowsGoWhereTheirExpertsAre) {
  Setting setting = On("deepseek-v3", "H200");
  constexpr double kRows = 16384;
  const auto out = [&](Configuration how, GateSide gate, int slots) {
    how.gate = gate;
    how.slots = slots;
    const double none = TimesOfExchange(setting, how, 0).out;
    return TimesOfExchange(setting, how, kRows).out - none;
  };
  Configuration how = Make(8, 32);
  how.slots = 8;
  const double needed = InstancesNeeded(setting.model, 32) / 32;
  EXPECT_NEAR(out(how, GateSide::kAttention, 8) / out(how, GateSide::kExperts, 8), needed, 0.01);
  // Half as many replicas again: so many more instances hold a chosen expert.
  const double more = NeededShare(256, 8, 12);
  EXPECT_NEAR(out(how, GateSide::kAttention, 12) / out(how, GateSide::kExperts, 12), more, 0.01);
  EXPECT_LT(out(how, GateSide::kAttention, 8), out(how, GateSide::kAttention, 12));
  // Of eight instances together a row needs most.
  how.mode = ExchangeMode::kTwoPhaseParallel;
  EXPECT_LT(out(how, GateSide::kAttention, 8), 0.95 * out(how, GateSide::kExperts, 8));
  EXPECT_GT(out(how, GateSide::kAttention, 8), 0.8 * out(how, GateSide::kExperts, 8));
}

TEST(Exchange, SumsOf24BitsTakeThreeQuartersOf32) {
  Configuration how = Make(8, 16);
  how.mode = ExchangeMode::kTwoPhaseParallel;
  how.sum = SumRule::kFixedPoint;
  const double none = Times(how, 0).back;
  const double wide = Times(how, 65536).back - none;
  how.sum_bits = 24;
  EXPECT_NEAR((Times(how, 65536).back - none) / wide, 0.75, 0.01);
}

// Pods of one instance gather nothing, so both modes have Direct's messages.
TEST(Exchange, PodsAreTheNodesOfTheExchange) {
  Setting setting = On("deepseek-v3", "H200");
  Configuration how = Make(8, 16);
  const double direct = TimesOfExchange(setting, how, 8192).out;
  how.mode = ExchangeMode::kTwoPhaseParallel;
  const double of_nodes = TimesOfExchange(setting, how, 8192).out;
  setting.attention_per_node = setting.experts_per_node = 4;
  const double of_pods = TimesOfExchange(setting, how, 8192).out;
  setting.attention_per_node = setting.experts_per_node = 1;
  const double apart = TimesOfExchange(setting, how, 8192).out;
  EXPECT_LT(of_nodes, of_pods);
  EXPECT_LT(of_pods, apart);
  EXPECT_NEAR(apart, direct, 0.01 * direct);
}

TEST(Configuration, IsServedWhereNothingOfItIsOnlyPlanned) {
  Setting setting = On("deepseek-v3", "H200");
  EXPECT_TRUE(IsServed(setting, Make(4, 12, 3)));
  Configuration how = Make(4, 12);
  how.wire = WireFormat::kFp8;
  how.sum = SumRule::kFixedPoint;
  how.mode = ExchangeMode::kTwoPhaseParallel;
  EXPECT_TRUE(IsServed(setting, how));
  setting.attention_per_node = setting.experts_per_node = 1;
  EXPECT_EQ(WhyNotServed(setting, how),
            std::vector<std::string>{"two phases with pods of one instance"});
  setting.experts_per_node = 2;
  EXPECT_TRUE(IsServed(setting, how));
  how.pools = 2;
  EXPECT_EQ(NameOf(how), "2 x 4A12E");
  EXPECT_TRUE(IsServed(setting, how));
  how.pools = 9;
  EXPECT_EQ(WhyNotServed(setting, how), std::vector<std::string>{"more than 8 pools"});
  how.gate = GateSide::kAttention;
  EXPECT_EQ(WhyNotServed(setting, how).size(), 2u);
  for (const auto change : std::initializer_list<void (*)(Configuration&)>{
           [](Configuration& c) { c.gate = GateSide::kAttention; },
           [](Configuration& c) { c.tp_attention = 2; },
           [](Configuration& c) { c.tp_experts = 2; }}) {
    Configuration changed = Make(4, 12);
    change(changed);
    EXPECT_FALSE(IsServed(setting, changed));
  }
  how = Make(4, 12);
  how.gate = GateSide::kAttention;
  setting.attention.hardware.is_cpu = setting.experts.hardware.is_cpu = true;
  EXPECT_TRUE(IsServed(setting, how));
}

}  // namespace
}  // namespace janus::controllers
