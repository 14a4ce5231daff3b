// Whole instances in the two-phase modes, each on a device. Rows land once for each expert node.
// The bits are those of the request alone, as in mode Direct and with bundles in host memory.

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/golden.h"
#include "tests/support/passing_exchange.h"

namespace janus::dataplane {
namespace {

// Counts rounds whose rows stay in the device's memory, and others.
struct Rounds {
  std::atomic<int> on_device{0}, through_host{0};
};
class CountingExchange final : public PassingExchange {
 public:
  CountingExchange(std::unique_ptr<AttentionExchange> inner, Rounds& rounds)
      : PassingExchange(std::move(inner)), rounds_(rounds) {}

  Status Post(const RoundKey& key, int rows, MonotonicTime ready) override {
    ++(DeviceRows(key.micro_batch) != nullptr ? rounds_.on_device : rounds_.through_host);
    return PassingExchange::Post(key, rows, ready);
  }

 private:
  Rounds& rounds_;
};

// Nodes of `attention_each` and `experts_each` instances. Those of the two roles share no memory,
// or the two first ones do.
std::vector<int> DomainsOf(const Topology& topology, int attention_each, int experts_each,
                           bool share_first) {
  std::vector<int> domains;
  for (int a = 0; a < topology.m(); ++a) domains.push_back(a / attention_each);
  for (int e = 0; e < topology.n(); ++e) {
    const int node = e / experts_each;
    domains.push_back(share_first && node == 0 ? 0 : 100 + node);
  }
  return domains;
}

TEST(TwoPhaseServing, GivesTheBitsOfTheRequestAlone) {
  const HeldModel held = HoldByName("small", DType::kBFloat16, MixSeed(TestSeed(), 1));
  const RequestPool pool = MakeRequestPool(held, OnDevice(), 6, MixSeed(TestSeed(), 2));
  const int schedules = HowMany({.sanitized = 2, .gate = 6, .nightly = 30, .soak = 1000});
  Rounds rounds, of_bundles;
  for (int i = 0; i < schedules; ++i) {
    Random random(MixSeed(TestSeed(), 50, static_cast<uint64_t>(i)));
    const int m = random.Between(1, 3), n = random.Between(2, 4);
    Schedule schedule = RandomSchedule(random, m, n, held.model, pool);
    const int attention_each = random.Between(1, 2), experts_each = random.Between(2, 3);
    GroupIntoNodes(schedule.topology, attention_each, experts_each);
    schedule.topology.gate = GateSide::kExperts;
    schedule.topology.micro_batches = 1 + i % kMaxMicroBatches;
    const ExchangeMode two_phase =
        i % 2 == 0 ? ExchangeMode::kTwoPhaseSingle : ExchangeMode::kTwoPhaseParallel;
    const uint64_t lag = random.Next();
    const Join join = JoinDomainsOf(
        DomainsOf(schedule.topology, attention_each, experts_each, random.Chance(0.3)));
    struct Way {
      ExchangeMode mode;
      Join join;
      Rounds* rounds;
    };
    Rounds of_direct;
    for (const Way& way : {Way{two_phase, join, &rounds}, Way{two_phase, nullptr, &of_bundles},
                           Way{ExchangeMode::kDirect, join, &of_direct}}) {
      // The comparison of all ways is for a few.
      if (way.rounds != &rounds && i >= 6) continue;
      schedule.topology.mode = way.mode;
      KernelChoice kernels = OnDevice();
      kernels.device_join = way.join;
      kernels.make_context = BehindHosts(lag);
      const ScheduleRun run =
          RunSchedule(schedule, held, pool, kernels, [&](std::unique_ptr<AttentionExchange> inner) {
            return std::make_unique<CountingExchange>(std::move(inner), *way.rounds);
          });
      ASSERT_EQ(Differences(schedule, run, pool), "")
          << schedule << "\nagain with JANUS_SEED=" << TestSeed() << ", schedule " << i;
    }
  }
  EXPECT_GT(rounds.on_device, 0);
  EXPECT_EQ(rounds.through_host, 0);
  EXPECT_EQ(of_bundles.on_device, 0);
}

}  // namespace
}  // namespace janus::dataplane
