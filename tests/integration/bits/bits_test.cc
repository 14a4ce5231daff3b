#include <gtest/gtest.h>

#include <utility>

#include "tests/integration/bits/pools.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

// The shapes, models and formats that the schedules are spread over.
struct Configuration {
  int m = 1;
  int n = 1;
  std::string weights;
  DType dtype = DType::kFloat32;
  bool fp8_cache = false;
  Compression compression = Compression::kNone;
  int sum_bits = 0;

  std::string name() const {
    return std::to_string(m) + "A" + std::to_string(n) + "E_" + weights + "_" +
           std::string(ToString(dtype)) + (fp8_cache ? "_fp8_cache" : "") +
           (compression == Compression::kFp8 ? "_fp8_exchange" : "") +
           (sum_bits > 0 ? "_sums" + std::to_string(sum_bits) : "");
  }
};
std::vector<Configuration> Configurations() {
  std::vector<Configuration> all;
  for (const auto& [m, n] : {std::pair{1, 1}, std::pair{1, 3}, std::pair{2, 2}, std::pair{3, 5}}) {
    for (const char* weights : kBitsModels) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        all.push_back({m, n, weights, dtype});
      }
      all.push_back({m, n, weights, DType::kBFloat16, true});
      all.push_back({m, n, weights, DType::kBFloat16, false, Compression::kFp8});
    }
    // One width for each model: for each width, requests are computed alone once.
    for (const auto& [weights, bits] :
         {std::pair{"mixtral", 32}, {"deepseek_v3", 24}, {"qwen2_moe", 24}, {"small_latent", 32}}) {
      // Rows are also compressed where the gate may be on either side of the exchange.
      const bool packs = bits == 24 && n > 1;
      all.push_back({m, n, weights, DType::kBFloat16, false,
                     packs ? Compression::kFp8 : Compression::kNone, bits});
    }
  }
  return all;
}

// The schedules are dealt to all configurations. The seed decides which of them get one more.
int SchedulesOf(size_t index, size_t configurations) {
  const auto total = static_cast<size_t>(
      HowMany({.sanitized = 48, .gate = 300, .nightly = 1'000, .soak = 20'000}));
  const size_t turn = (index + TestSeed()) % configurations;
  return static_cast<int>(total / configurations + (turn < total % configurations ? 1 : 0));
}

// Some of the schedules run out of pages, and some find prefixes in the cache. In a usual run one
// configuration alone has too few schedules for that, so it is checked over all together, and only
// in runs with enough of them.
class BitsTest : public testing::TestWithParam<size_t> {
 protected:
  static void TearDownTestSuite() {
    EXPECT_TRUE(all_preempted_ > 0 || all_schedules_ < 40)
        << "none of " << all_schedules_ << " schedules ran out of pages";
    EXPECT_TRUE(all_cached_ > 0 || all_schedules_ < 40)
        << "none of " << all_schedules_ << " schedules found a prefix in the cache";
  }

  inline static int all_schedules_ = 0;
  inline static uint64_t all_preempted_ = 0;
  inline static uint64_t all_cached_ = 0;
};

TEST_P(BitsTest, LogitsAreThoseOfTheRequestAlone) {
  const std::vector<Configuration> all = Configurations();
  const Configuration& c = all[GetParam()];
  const HeldModel& held = Held(c.weights, c.dtype);
  const int schedules = SchedulesOf(GetParam(), all.size());
  uint64_t preempted = 0, recomputed = 0, cached = 0, cached_in_host = 0;
  size_t rows = 0;
  for (int i = 0; i < schedules; ++i) {
    KernelChoice kernels =
        (GetParam() + static_cast<size_t>(i)) % 4 == 0 ? KernelChoice() : BestCpu();
    kernels.fp8_cache = c.fp8_cache;
    kernels.compression = c.compression;
    kernels.sum_bits = c.sum_bits;
    const RequestPool& pool = Pool(c.weights, c.dtype, kernels);
    Random random(MixSeed(TestSeed(), GetParam(), static_cast<uint64_t>(i)));
    const Schedule schedule = RandomSchedule(random, c.m, c.n, held.model, pool);
    const ScheduleRun run = RunSchedule(schedule, held, pool, kernels);
    preempted += run.preempted;
    recomputed += run.recomputed;
    cached += run.cached;
    cached_in_host += run.cached_in_host;
    for (const Trace& trace : run.traces) rows += trace.logits.size();
    ASSERT_EQ(Differences(schedule, run, pool), "")
        << "schedule " << i << " on "
        << (kernels.device == kernels::Device::kReference ? "reference" : "CPU") << ": " << schedule
        << "\nagain with JANUS_SEED=" << TestSeed();
    ASSERT_FALSE(HasFailure()) << "schedule " << i << ": " << schedule
                               << "\nagain with JANUS_SEED=" << TestSeed();
  }
  all_schedules_ += schedules;
  all_preempted_ += preempted;
  all_cached_ += cached;
  std::cout << schedules << " schedules, " << rows << " positions, " << preempted
            << " preemptions, " << recomputed << " positions again, " << cached
            << " from the cache, " << cached_in_host << " of these from host memory\n";
}

// The next turn of a conversation, whose prompt is the prompt and the answer of the first. The
// cache holds the answer's positions as generated ones. Latent attention computes them by other
// algebra than prompt positions, so the bits are equal only if they are computed again.
TEST(PrefixCacheTest, AnAnswerIsComputedAgainAsAPromptUnlessReuseIsAskedFor) {
  const HeldModel& held = Held("small_latent", DType::kFloat32);
  const KernelChoice kernels;
  Request first;
  Random random(7);
  for (int i = 0; i < 10; ++i) first.prompt.push_back(random.Between(0, held.model.vocab - 1));
  first.max_tokens = 20;
  const RequestPool alone = MakeRequestPool(held, kernels, {first});
  Request second = first;
  second.prompt.insert(second.prompt.end(), alone.alone[0].tokens.begin(),
                       alone.alone[0].tokens.end());
  second.max_tokens = 4;
  const RequestPool pool = MakeRequestPool(held, kernels, {first, second});
  Schedule schedule;
  schedule.topology = OptionsAlone(held, kernels).topology;
  schedule.kv_pages = 16;
  schedule.max_batch = 4;
  schedule.sequences = {{.request = 0, .key = {1, 0, 1}}, {.request = 1, .key = {1, 1, 1}}};
  schedule.actions = {{Schedule::Action::kSubmit, 0, 0},
                      {Schedule::Action::kAwait, 0, 20},
                      {Schedule::Action::kSubmit, 1, 0}};
  const ScheduleRun exact = RunSchedule(schedule, held, pool, kernels);
  EXPECT_EQ(Differences(schedule, exact, pool), "");
  EXPECT_EQ(exact.cached, 0u) << "the first page holds generated positions";
  schedule.prefixes = PrefixSharing::kReuse;
  const ScheduleRun reused = RunSchedule(schedule, held, pool, kernels);
  EXPECT_EQ(reused.cached, static_cast<uint64_t>(kernels::kPageTokens));
  EXPECT_NE(Differences(schedule, reused, pool), "");
}

INSTANTIATE_TEST_SUITE_P(All, BitsTest, testing::Range(size_t{0}, Configurations().size()),
                         [](const auto& info) { return Configurations()[info.param].name(); });

}  // namespace
}  // namespace janus::dataplane
