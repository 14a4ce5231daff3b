// The goldens with instances that exchange over shared memory, over UCX, or both: the results equal
// the reference over every transport.

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/integration/golden/mutations.h"
#include "tests/support/networks.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

using Parameter = std::tuple<NetworkKind, const char*>;  // and the family

class GoldenOverNetworks : public testing::TestWithParam<Parameter> {
 protected:
  const Golden golden_ = ReadGolden(std::get<1>(GetParam()));
  // Enough members for both kinds of pairs in two and in three memory domains.
  const CaseService service_{
      .kernels = BestCpu(), .m = 2, .n = 3, .connect = std::get<0>(GetParam()).connect};
};

TEST_P(GoldenOverNetworks, LogitsAndTokensAreTransformers) {
  for (const GoldenCase& c : golden_.cases) {
    SCOPED_TRACE(c.name);
    const int tokens = std::max(1, static_cast<int>(c.greedy_ids.size()));
    const Result<CaseRun> run = RunCase(golden_, c, service_, tokens);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    EXPECT_LE(LargestDifference(*run, c), golden_.tolerance * c.range);
    if (!c.greedy_ids.empty()) {
      EXPECT_EQ(run->tokens, c.greedy_ids);
    }
  }
}

TEST_P(GoldenOverNetworks, MutationsShow) {
  const std::vector<Mutation> all = MutationsOf(std::get<1>(GetParam()));
  // A few of them each time, different ones with each seed; all in soak.
  const auto count = static_cast<size_t>(
      HowMany({.sanitized = 1, .gate = 6, .nightly = 12, .soak = static_cast<int>(all.size())}));
  const size_t first = MixSeed(TestSeed(), 8) % all.size();
  const size_t stride = Soak() ? 1 : 19;  // neighbouring mutations change the same field
  for (size_t i = 0; i < count; ++i) {
    const Mutation& mutation = all[(first + i * stride) % all.size()];
    SCOPED_TRACE(mutation.name + ", again with JANUS_SEED=" + std::to_string(TestSeed()));
    ExpectThatItShows(mutation, service_);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenOverNetworks,
                         testing::Combine(testing::ValuesIn(AllNetworks()),
                                          testing::ValuesIn(kGoldenFamilies)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace janus::dataplane
