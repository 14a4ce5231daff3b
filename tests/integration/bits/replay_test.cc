// Long answers that lose their keys and values meanwhile. Positions that are computed again, as
// generated positions, have the original bits.

#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

constexpr int kMostGenerated = 200;

struct Configuration {
  std::string model;  // "small", "small_latent", or a golden checkpoint's folder
  DType dtype = DType::kFloat32;
  bool fp8_cache = false;
  Compression compression = Compression::kNone;
  int sum_bits = 0;
  std::string name() const {
    return model + "_" + std::string(ToString(dtype)) + (fp8_cache ? "_fp8_cache" : "") +
           (compression == Compression::kFp8 ? "_fp8_exchange" : "") +
           (sum_bits > 0 ? "_sums" + std::to_string(sum_bits) : "");
  }
};
const std::vector<Configuration> kConfigurations = {
    {"small", DType::kFloat32},
    {"small", DType::kBFloat16},
    {"small_latent", DType::kFloat32},
    {"small_latent", DType::kBFloat16},
    {"mixtral", DType::kFloat32},
    {"mixtral", DType::kBFloat16},
    {"deepseek_v2", DType::kFloat32},
    {"deepseek_v2", DType::kBFloat16},
    {"mixtral", DType::kFloat32, true},
    {"mixtral", DType::kBFloat16, true},
    {"deepseek_v2", DType::kFloat32, true},
    {"deepseek_v2", DType::kBFloat16, true},
    {"mixtral", DType::kBFloat16, false, Compression::kFp8},
    {"deepseek_v2", DType::kFloat32, true, Compression::kFp8},
    {"mixtral", DType::kBFloat16, false, Compression::kNone, 32},
    {"deepseek_v2", DType::kBFloat16, false, Compression::kNone, 24}};

// Long answers, greedy and sampled, computed alone.
class ReplayTest : public testing::TestWithParam<Configuration> {
 protected:
  static constexpr int kRequests = 4;

  ReplayTest() : held_(HoldByName(GetParam().model, GetParam().dtype, MixSeed(TestSeed(), 1))) {
    Random random(MixSeed(TestSeed(), 2));
    std::vector<Request> requests;
    for (int i = 0; i < kRequests; ++i) {
      Request& request = requests.emplace_back();
      for (int p = random.Between(1, 40); p > 0; --p) {
        request.prompt.push_back(random.Between(0, held_.model.vocab - 1));
      }
      request.max_tokens = kMostGenerated;
      request.seed = random.Next();
      request.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    }
    pool_ = MakeRequestPool(held_, Kernels(), std::move(requests));
  }

  static KernelChoice Kernels() {
    KernelChoice kernels = BestCpu();
    kernels.fp8_cache = GetParam().fp8_cache;
    kernels.compression = GetParam().compression;
    kernels.sum_bits = GetParam().sum_bits;
    return kernels;
  }

  Schedule Base(Random& random, int m, int n) const {
    Schedule schedule;
    const int experts = held_.model.moe.experts;
    const std::vector<int> slots(static_cast<size_t>(n), experts);
    schedule.topology =
        MakeTopology(m, slots, held_.model.moe_layers(), experts, random.Between(1, 2));
    schedule.chunk_seed = random.Next();
    schedule.max_batch = 8;
    schedule.kv_pages = KvPagePool::PagesFor(40 + kMostGenerated) + random.Between(0, 12);
    return schedule;
  }
  static void Submit(Schedule& schedule, int request, int given, int attention) {
    Schedule::SequenceOf of;
    of.request = request;
    of.given = given;
    of.attention = attention;
    of.key = {1, schedule.sequences.size(), 1};
    schedule.actions.push_back(
        {Schedule::Action::kSubmit, static_cast<int>(schedule.sequences.size()), 0});
    schedule.sequences.push_back(of);
  }

  const HeldModel held_;
  RequestPool pool_;
};

TEST_P(ReplayTest, PreemptedAtAnyMomentAnAnswerKeepsItsBits) {
  const int runs = HowMany({.sanitized = 1, .gate = 2, .nightly = 6, .soak = 60});
  uint64_t copied_out = 0, recomputed = 0;
  // Preemptions are random: if none has occurred, more runs follow.
  const auto lacks_one = [&] { return recomputed == 0 || (runs > 1 && copied_out == 0); };
  for (int run = 0; run < runs || (lacks_one() && run < runs + 40); ++run) {
    Random random(MixSeed(TestSeed(), 3, static_cast<uint64_t>(run)));
    const int m = random.Between(1, 2);
    Schedule schedule = Base(random, m, random.Between(1, 2));
    schedule.swap_pages = run % 2 == 0 ? 0 : 64;
    schedule.preempt_chance = 0.02;
    for (int i = 0; i < kRequests; ++i) {
      Submit(schedule, i, 0, i % m);
      schedule.actions.push_back({Schedule::Action::kAwait, i, random.Between(1, 80)});
    }
    const ScheduleRun result = RunSchedule(schedule, held_, pool_, Kernels());
    ASSERT_EQ(Differences(schedule, result, pool_), "")
        << schedule << "\nagain with JANUS_SEED=" << TestSeed();
    if (schedule.swap_pages > 0) copied_out += result.preempted;
    recomputed += result.recomputed;
  }
  EXPECT_FALSE(lacks_one()) << "again with JANUS_SEED=" << TestSeed();
  std::cout << copied_out << " times to host memory, " << recomputed << " positions again\n";
}

TEST_P(ReplayTest, AnAnswerGoesOnFromAnyOfItsTokens) {
  const int stride =
      kMostGenerated / HowMany({.sanitized = 5, .gate = 25, .nightly = 200, .soak = 200});
  Random random(MixSeed(TestSeed(), 4));
  Schedule schedule = Base(random, 1, 1);
  for (int given = random.Between(0, stride - 1); given < kMostGenerated; given += stride) {
    Submit(schedule, given % kRequests, given, 0);
  }
  const ScheduleRun result = RunSchedule(schedule, held_, pool_, Kernels());
  EXPECT_EQ(Differences(schedule, result, pool_), "") << "again with JANUS_SEED=" << TestSeed();
}

INSTANTIATE_TEST_SUITE_P(All, ReplayTest, testing::ValuesIn(kConfigurations),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace janus::dataplane
