#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <map>

#include "dataplane/worker/timed/make_model.h"
#include "dataplane/worker/timed/pacers.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

struct Bits {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> hashes;
  friend bool operator==(const Bits&, const Bits&) = default;
};

// Whole instances in one process, with pacers and without.
class PacedClusterTest : public testing::Test {
 protected:
  LoopbackCluster::Options OptionsFor(int m, const std::vector<int>& slots, int micro_batches) {
    LoopbackCluster::Options options;
    options.topology =
        MakeTopology(m, slots, held_.model.moe_layers(), held_.model.moe.experts, micro_batches);
    options.attention.kv_bytes = 1 << 20;
    options.attention.swap_bytes = 1 << 20;
    options.attention.max_batch = 8;
    return options;
  }
  void Pace(LoopbackCluster::Options& options, const TimedModel& model) const {
    const int m = options.topology.m(), n = options.topology.n();
    options.make_attention_pacer = [&model] { return MakeAttentionPacer(model); };
    options.make_expert_pacer = [&model, m, n] { return MakeExpertPacer(model, m, n); };
  }
  std::unique_ptr<LoopbackCluster> Start(const LoopbackCluster::Options& options) {
    shares_.push_back(held_.Shares(options.topology.placement));
    return std::make_unique<LoopbackCluster>(options, held_.model, held_.attention,
                                             PointersTo(shares_.back()));
  }
  static Request Ask(uint64_t id, int prompt, int max_tokens) {
    Request request;
    request.key = {1, id, 1};
    for (int i = 0; i < prompt; ++i) request.prompt.push_back((i * 7 + static_cast<int>(id)) % 80);
    request.max_tokens = max_tokens;
    request.want_logits_hash = true;
    return request;
  }
  static Bits BitsOf(const LoopbackCluster::Outcome& outcome) {
    EXPECT_EQ(outcome.finish, FinishReason::kLength) << outcome.error.ToString();
    Bits bits{.tokens = outcome.tokens, .hashes = {}};
    for (const TokenEvent& event : outcome.events) {
      if (event.has_logits_hash) bits.hashes.push_back(event.logits_hash);
    }
    return bits;
  }
  // Six requests at once, over all attention instances.
  std::map<uint64_t, Bits> Run(LoopbackCluster& cluster, int m) {
    constexpr uint64_t kRequests = 6;
    std::map<uint64_t, Bits> bits;
    for (uint64_t id = 0; id < kRequests; ++id) {
      const int rank = static_cast<int>(id) % m;
      EXPECT_TRUE(cluster.attention(rank).Submit(Ask(id, 3 + static_cast<int>(id), 6)).ok());
    }
    for (uint64_t id = 0; id < kRequests; ++id) bits[id] = BitsOf(cluster.Await({1, id, 1}));
    return bits;
  }
  TimedModel Timed(int time_scale) const {
    return *std::move(*MakeTimedModel({"H200", "deepseek-v3", 4, time_scale}, held_.model));
  }

  // A dense layer, shared experts, both kinds of rows.
  const HeldModel held_ = SmallLatentModel(DType::kFloat32, 5);
  std::list<std::vector<ExpertWeights>> shares_;  // of each cluster
};

std::vector<int> AllSlots(const HeldModel& held) {
  return {held.model.moe.experts};
}

TEST_F(PacedClusterTest, TokensAndLogitsAreThoseOfInstancesThatWaitForNothing) {
  const int half = (held_.model.moe.experts + 1) / 2;
  for (const int micro_batches : {1, 2}) {
    LoopbackCluster::Options options = OptionsFor(2, {half, half}, micro_batches);
    const auto plain = Start(options);
    const std::map<uint64_t, Bits> want = Run(*plain, 2);
    const TimedModel model = Timed(100);
    Pace(options, model);
    const auto paced = Start(options);
    EXPECT_EQ(Run(*paced, 2), want) << micro_batches;
    for (int rank = 0; rank < 2; ++rank) {
      const InstanceStatistics attention = paced->attention(rank).statistics();
      const uint64_t rounds =
          static_cast<uint64_t>(held_.model.moe_layers() * micro_batches) * attention.steps;
      EXPECT_GT(attention.timed_waits, attention.steps);
      EXPECT_LE(attention.timed_waits, 2 * rounds + attention.steps)
          << "attention and shared experts of each round, and the end of a step";
      EXPECT_GT(paced->experts(rank).statistics().timed_waits, 0u);
    }
    EXPECT_EQ(plain->attention(0).statistics().timed_waits, 0u);
  }
}

// Never earlier; how much later is up to the machine, and counted as overruns.
TEST_F(PacedClusterTest, NoTokenComesBeforeTheModelledTime) {
  LoopbackCluster::Options options = OptionsFor(1, AllSlots(held_), 1);
  const TimedModel model = Timed(2);
  Pace(options, model);
  const auto cluster = Start(options);
  constexpr int kTokens = 12;
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 1, kTokens)).ok());
  ASSERT_EQ(cluster->Await({1, 1, 1}, 1).tokens.size(), 1u);
  const MonotonicTime first = MonotonicClock::now();
  ASSERT_EQ(cluster->Await({1, 1, 1}).tokens.size(), size_t{kTokens});
  const Seconds took = MonotonicClock::now() - first;
  // The least that a row takes: one key, one expert for each of its choices.
  const controllers::AttentionRows row = {.decode = 1, .context = 1};
  std::vector<int> slots(static_cast<size_t>(held_.model.moe.experts));
  std::fill_n(slots.begin(), held_.model.moe.top_k, 1);
  const auto exchange = model.ExchangeSeconds(1, 1, 1);
  const double layer =
      model.AttentionSeconds(row) + exchange.out + model.ExpertSeconds(slots, 1) + exchange.back;
  const double step = held_.model.moe_layers() * layer + model.DenseSeconds(row);
  EXPECT_GT(step, 0.001);
  // The thread that waits for the first token here may wake up late itself.
  EXPECT_GT(took.count(), (kTokens - 2) * step);
  // What the coordinator and the users of statistics see are these times, too.
  EXPECT_GT(cluster->attention(0).statistics().step_seconds_median, 0.9 * step);
}

// Asks how many experts a round is timed for.
class AskedPacer : public ExpertPacer {
 public:
  explicit AskedPacer(std::atomic<size_t>& held) : held_(held) {}
  MonotonicTime Receive(int, MonotonicTime, bool) override { return {}; }
  MonotonicTime Compute(const Work& work, bool) override {
    held_ = work.rows_of_held.size();
    return {};
  }
  MonotonicTime Send(MonotonicTime shown, bool) override { return shown; }
  MonotonicTime Show(MonotonicTime, MonotonicTime now) override { return now; }
  PacerCounts counts() const override { return {}; }

 private:
  std::atomic<size_t>& held_;
};

// Spare slots stand for no expert of the named model: with two of them, each round of the demo
// model took up to two thirds longer.
TEST_F(PacedClusterTest, SpareSlotsTakeNoTime) {
  const int experts = held_.model.moe.experts;
  LoopbackCluster::Options options = OptionsFor(1, {experts + 2}, 1);
  std::atomic<size_t> held = 0;
  options.make_expert_pacer = [&] { return std::make_unique<AskedPacer>(held); };
  const auto cluster = Start(options);
  ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 3, 2)).ok());
  ASSERT_EQ(cluster->Await({1, 1, 1}).tokens.size(), 2u);
  EXPECT_EQ(held, static_cast<size_t>(experts));
}

// Shows its first result in an hour, all others at once.
class Stuck {
 public:
  MonotonicTime First() {
    return was_asked_.exchange(true) ? MonotonicTime()
                                     : MonotonicClock::now() + std::chrono::hours(1);
  }

 private:
  std::atomic<bool> was_asked_ = false;
};

class StuckExperts final : public ExpertPacer {
 public:
  explicit StuckExperts(Stuck& stuck) : stuck_(stuck) {}
  MonotonicTime Receive(int, MonotonicTime, bool) override { return {}; }
  MonotonicTime Compute(const Work&, bool) override { return stuck_.First(); }
  MonotonicTime Send(MonotonicTime shown, bool) override { return shown; }
  MonotonicTime Show(MonotonicTime due, MonotonicTime) override { return due; }
  PacerCounts counts() const override { return {}; }

 private:
  Stuck& stuck_;
};

class StuckAttention final : public AttentionPacer {
 public:
  explicit StuckAttention(Stuck& stuck) : stuck_(stuck) {}
  void BeginStep(MonotonicTime) override {}
  MonotonicTime Attend(const PacedRows&, MonotonicTime, bool) override { return stuck_.First(); }
  MonotonicTime Share(int) override { return {}; }
  MonotonicTime EndStep(const PacedRows&, MonotonicTime) override { return {}; }
  MonotonicTime Show(MonotonicTime due, MonotonicTime) override { return due; }
  PacerCounts counts() const override { return {}; }

 private:
  Stuck& stuck_;
};

TEST_F(PacedClusterTest, AWaitEndsWithTheStepThatIsGivenUp) {
  LoopbackCluster::Options options = OptionsFor(1, AllSlots(held_), 1);
  const std::map<uint64_t, Bits> want = Run(*Start(options), 1);
  Stuck stuck;
  options.make_expert_pacer = [&] { return std::make_unique<StuckExperts>(stuck); };
  options.pace.deadlines = {Seconds(0.2), Scaled(Seconds(20)), Seconds(0.2)};
  const auto cluster = Start(options);
  EXPECT_EQ(Run(*cluster, 1), want);
  EXPECT_GT(cluster->attention(0).statistics().steps_aborted, 0u);
}

TEST_F(PacedClusterTest, AWaitEndsWithTheStop) {
  const auto stops = [&](LoopbackCluster::Options options) {
    const auto cluster = Start(options);
    ASSERT_TRUE(cluster->attention(0).Submit(Ask(1, 3, 4)).ok());
    // Its end does not wait for the hour.
    EXPECT_TRUE(cluster->Stop().ok());
  };
  Stuck experts, attention;
  LoopbackCluster::Options options = OptionsFor(1, AllSlots(held_), 1);
  options.make_expert_pacer = [&] { return std::make_unique<StuckExperts>(experts); };
  stops(options);
  options.make_expert_pacer = nullptr;
  options.make_attention_pacer = [&] { return std::make_unique<StuckAttention>(attention); };
  stops(options);
}

}  // namespace
}  // namespace janus::dataplane
