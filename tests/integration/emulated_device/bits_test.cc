// On the emulated device, too, a request's bits are those of the request alone. They do not depend
// on topology, placement, micro-batches, chunks, where exchanged rows lie, what is swapped out or
// computed again, or how far hosts are ahead.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

struct Configuration {
  const char* model;
  DType dtype;
  bool fp8_cache = false;
  Compression compression = Compression::kNone;
  int sum_bits = 0;
  std::string name() const {
    return std::string(model) + "_" + std::string(ToString(dtype)) +
           (fp8_cache ? "_fp8_cache" : "") +
           (compression == Compression::kFp8 ? "_fp8_exchange" : "") +
           (sum_bits > 0 ? "_sums" + std::to_string(sum_bits) : "");
  }
};
const std::vector<Configuration> kConfigurations = {
    {"small", DType::kFloat32},
    {"small", DType::kBFloat16},
    {"small_latent", DType::kFloat32},
    {"small_latent", DType::kBFloat16},
    {"small_fp8", DType::kBFloat16},
    {"small_sigmoid", DType::kBFloat16},
    {"small_gated", DType::kFloat32},
    {"small_gated", DType::kBFloat16},
    {"small_sinks", DType::kFloat32},
    {"small_sinks", DType::kBFloat16},
    {"small_chunks", DType::kFloat32},
    {"small_chunks", DType::kBFloat16},
    {"small_mxfp4", DType::kBFloat16},
    {"grouped_heads", DType::kBFloat16},
    {"deepseek_heads", DType::kBFloat16},
    {"small", DType::kBFloat16, true},
    {"small_chunks", DType::kBFloat16, true},
    {"small_latent", DType::kBFloat16, true},
    {"grouped_heads", DType::kBFloat16, true},
    {"deepseek_heads", DType::kBFloat16, true},
    {"small_gated", DType::kFloat32, false, Compression::kFp8},
    {"small_latent", DType::kBFloat16, true, Compression::kFp8},
    {"small_gated", DType::kBFloat16, false, Compression::kNone, 32},
    {"small_latent", DType::kBFloat16, false, Compression::kFp8, 24}};

// A model, and requests that were computed alone.
struct Alone {
  HeldModel held;
  RequestPool pool;
};

KernelChoice KernelsOf(const Configuration& configuration) {
  KernelChoice kernels = OnDevice();
  kernels.fp8_cache = configuration.fp8_cache;
  kernels.compression = configuration.compression;
  kernels.sum_bits = configuration.sum_bits;
  return kernels;
}

// Made once for all tests of the configuration.
const Alone& AloneOf(const Configuration& configuration) {
  static std::map<std::string, Alone> made;
  auto found = made.find(configuration.name());
  if (found == made.end()) {
    HeldModel held = HoldByName(configuration.model, configuration.dtype, MixSeed(TestSeed(), 1));
    RequestPool pool = MakeRequestPool(held, KernelsOf(configuration), 6, MixSeed(TestSeed(), 2));
    found = made.emplace(configuration.name(), Alone{std::move(held), std::move(pool)}).first;
  }
  return found->second;
}

class EmulatedBitsTest : public testing::TestWithParam<Configuration> {
 protected:
  static KernelChoice Kernels() { return KernelsOf(GetParam()); }

  // The gate runs one of `all` for each configuration, in turn, so that all configurations together
  // run each of them; nightly runs all.
  static bool IsTurn(int one, int all) {
    const auto configuration =
        std::ranges::find(kConfigurations, GetParam().name(), &Configuration::name) -
        kConfigurations.begin();
    return HowMany({.sanitized = 0, .gate = 0, .nightly = 1, .soak = 1}) == 1 ||
           one % all == configuration % all;
  }

  const HeldModel& held_ = AloneOf(GetParam()).held;
  const RequestPool& pool_ = AloneOf(GetParam()).pool;
};

TEST_P(EmulatedBitsTest, LogitsAreThoseOfTheRequestAlone) {
  // Large heads take long on the host.
  const bool is_large = held_.model.attention.head_dim > 100;
  const int schedules =
      HowMany({.sanitized = 1, .gate = 1, .nightly = is_large ? 1 : 3, .soak = 40});
  size_t rows = 0;
  int turn = 0;
  for (const auto& [m, n] : {std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 2}, std::pair{2, 3}}) {
    for (int i = 0; i < schedules; ++i, ++turn) {
      if (!IsTurn(turn, 4)) continue;
      Random random(
          MixSeed(TestSeed(), static_cast<uint64_t>(10 * m + n), static_cast<uint64_t>(i)));
      const Schedule schedule = RandomSchedule(random, m, n, held_.model, pool_);
      KernelChoice kernels = Kernels();
      // Exchange in place, over a network, both mixed, or through host memory.
      if (const int how = turn % 4; how > 0) {
        kernels.device_join = how == 2 ? Join(JoinMemory) : JoinDomains(how == 1 ? 2 : 9);
      }
      // Hosts do not wait for rows in place, so this also lets devices lag behind their hosts.
      if (turn % 4 < 3) kernels.make_context = BehindHosts(random.Next());
      const ScheduleRun run = RunSchedule(schedule, held_, pool_, kernels);
      for (const Trace& trace : run.traces) rows += trace.logits.size();
      ASSERT_EQ(Differences(schedule, run, pool_), "")
          << schedule << "\nagain with JANUS_SEED=" << TestSeed();
    }
  }
  std::cout << rows << " positions\n";
}

// Keys and values are swapped to host memory and back, or are computed again.
TEST_P(EmulatedBitsTest, PreemptedSequencesKeepTheirs) {
  for (const int swap_pages : {64, 0}) {
    if (!IsTurn(swap_pages == 0 ? 1 : 0, 2)) continue;
    Random random(MixSeed(TestSeed(), 3, static_cast<uint64_t>(swap_pages)));
    Schedule schedule;
    const int experts = held_.model.moe.experts;
    schedule.topology = MakeTopology(1, {experts, experts}, held_.model.moe_layers(), experts, 2);
    schedule.max_batch = 4;
    schedule.kv_pages = 6;
    schedule.swap_pages = swap_pages;
    schedule.preempt_chance = 0.2;
    for (int i = 0; i < 4; ++i) {
      Schedule::SequenceOf of;
      of.request = i;
      of.key = {1, static_cast<uint64_t>(i), 1};
      schedule.sequences.push_back(of);
      schedule.actions.push_back({Schedule::Action::kSubmit, i, 0});
    }
    // Pages get new owners while the copies that read them have not run.
    KernelChoice kernels = Kernels();
    kernels.make_context = BehindHosts(random.Next());
    ScheduleRun run;
    // A schedule is short. Sometimes none of its steps preempts a sequence, or only sequences
    // without computed positions.
    const auto lacks_one = [&] {
      return run.preempted == 0 || (swap_pages == 0 && run.recomputed == 0);
    };
    for (int attempt = 0; attempt < 40 && lacks_one(); ++attempt) {
      schedule.chunk_seed = random.Next();
      run = RunSchedule(schedule, held_, pool_, kernels);
      ASSERT_EQ(Differences(schedule, run, pool_), "")
          << schedule << "\nagain with JANUS_SEED=" << TestSeed();
    }
    EXPECT_GT(run.preempted, 0u);
    if (swap_pages > 0) {
      EXPECT_EQ(run.recomputed, 0u);
    } else {
      EXPECT_GT(run.recomputed, 0u);
    }
  }
}

// Two prompts take turns in memory for one of them. With enough host memory each is copied there
// once, and comes back.
TEST_P(EmulatedBitsTest, PrefixesFromHostMemoryKeepTheirs) {
  constexpr int kPages = 2, kTokens = 4, kTurns = 6;
  Random random(MixSeed(TestSeed(), 4));
  std::vector<Request> requests(2);
  for (Request& request : requests) {
    for (int i = 0; i <= kPages * kernels::kPageTokens; ++i) {
      request.prompt.push_back(random.Between(0, held_.model.vocab - 1));
    }
    request.max_tokens = kTokens;
  }
  const RequestPool pool = MakeRequestPool(held_, Kernels(), requests);
  Schedule schedule;
  const int experts = held_.model.moe.experts;
  schedule.topology = MakeTopology(1, {experts, experts}, held_.model.moe_layers(), experts, 2);
  schedule.max_batch = 4;
  schedule.kv_pages = kPages + 1;
  for (int turn = 0; turn < kTurns; ++turn) {
    Schedule::SequenceOf of;
    of.request = turn % 2;
    of.key = {1, static_cast<uint64_t>(turn), 1};
    schedule.sequences.push_back(of);
    schedule.actions.push_back({Schedule::Action::kSubmit, turn, 0});
    schedule.actions.push_back({Schedule::Action::kAwait, turn, kTokens});
  }
  constexpr std::array kHostPages = {0, 1, 2 * kPages};
  for (size_t i = 0; i < kHostPages.size(); ++i) {
    if (!IsTurn(static_cast<int>(i), static_cast<int>(kHostPages.size()))) continue;
    const int host_pages = kHostPages[i];
    schedule.prefix_host_pages = host_pages;
    schedule.chunk_seed = random.Next();
    KernelChoice kernels = Kernels();
    kernels.make_context = BehindHosts(random.Next());
    const ScheduleRun run = RunSchedule(schedule, held_, pool, kernels);
    ASSERT_EQ(Differences(schedule, run, pool), "")
        << schedule << "\nagain with JANUS_SEED=" << TestSeed();
    const bool is_enough = host_pages == 2 * kPages;
    constexpr uint64_t kPositions = uint64_t{kPages} * kernels::kPageTokens;
    EXPECT_EQ(run.cached_in_host, is_enough ? (kTurns - 2) * kPositions : 0);
    EXPECT_EQ(run.cached, run.cached_in_host);
    if (is_enough) {
      EXPECT_EQ(run.saved_to_host, 2 * kPositions);
    } else if (host_pages == 0) {
      EXPECT_EQ(run.saved_to_host, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedBitsTest, testing::ValuesIn(kConfigurations),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace janus::dataplane
