// A request's logits have the bits of the request alone over shared memory, over UCX, and with both
// mixed in one service.

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "tests/integration/bits/pools.h"
#include "tests/support/networks.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

using Parameter = std::tuple<NetworkKind, const char*>;  // and the model

class BitsOverNetworks : public testing::TestWithParam<Parameter> {};

TEST_P(BitsOverNetworks, LogitsAreThoseOfTheRequestAlone) {
  const auto& [network, weights] = GetParam();
  // Three members or more, so that two and three memory domains are mixed.
  constexpr std::pair<int, int> kShapes[] = {{2, 2}, {1, 3}, {3, 3}, {2, 4}};
  // Every network and model each time; formats and shapes rotate, starting at a place that the seed
  // decides.
  const int schedules = HowMany({.sanitized = 1, .gate = 3, .nightly = 20, .soak = 200});
  const uint64_t first = MixSeed(TestSeed(), 5);
  size_t rows = 0;
  for (int i = 0; i < schedules; ++i) {
    const uint64_t turn = first + static_cast<uint64_t>(i);
    const auto [m, n] = kShapes[turn / 2 % std::size(kShapes)];
    const DType dtype = turn % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
    const HeldModel& held = Held(weights, dtype);
    const RequestPool& pool = Pool(weights, dtype, BestCpu());
    Random random(MixSeed(TestSeed(), 6, static_cast<uint64_t>(i)));
    const Schedule schedule = RandomSchedule(random, m, n, held.model, pool);
    const ScheduleRun run =
        RunSchedule(schedule, held, pool, BestCpu(), nullptr, nullptr, network.connect);
    for (const Trace& trace : run.traces) rows += trace.logits.size();
    ASSERT_EQ(Differences(schedule, run, pool), "")
        << "schedule " << i << ", " << ToString(dtype) << ": " << schedule
        << "\nagain with JANUS_SEED=" << TestSeed();
  }
  std::cout << schedules << " schedules, " << rows << " positions\n";
}

INSTANTIATE_TEST_SUITE_P(All, BitsOverNetworks,
                         testing::Combine(testing::ValuesIn(AllNetworks()),
                                          testing::ValuesIn(kBitsModels)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace janus::dataplane
