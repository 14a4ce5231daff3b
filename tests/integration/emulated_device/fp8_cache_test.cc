// Over an fp8 cache an instance on the emulated device computes the same as one on CPUs, whichever
// forms attention uses there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/mutex.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/golden.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::dataplane {
namespace {

using Logits = std::map<int, std::vector<float>>;  // by position

// Computes a prompt and the tokens after it, alone.
Logits Compute(const HeldModel& held, const KernelChoice& kernels, const Request& request) {
  LoopbackCluster::Options options = OptionsAlone(held, kernels);
  options.attention.kv_bytes = int64_t{1} << 20;
  options.attention.max_batch = 4;
  Mutex mu;
  Logits all;
  options.steering.logits_tap = [&](const RequestKey&, int position,
                                    std::span<const float> logits) {
    const MutexLock lock(mu);
    all[position] = {logits.begin(), logits.end()};
  };
  const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
  EXPECT_TRUE(cluster.attention(0).Submit(request).ok());
  cluster.Await(request.key);
  const MutexLock lock(mu);
  return all;
}

class EmulatedFp8CacheTest : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedFp8CacheTest, IsNearTheCpus) {
  HeldModel held = HoldByName(GetParam(), DType::kBFloat16, 4);
  // Every expert contributes: in a near tie the two sides could choose different experts.
  held.model.moe.top_k = held.model.moe.experts;
  held.model.moe.top_groups = held.model.moe.groups;
  Request request;
  for (int i = 0; i < 90; ++i) request.prompt.push_back(i * 29 % held.model.vocab);
  request.max_tokens = 1;
  request.key = {1, 1, 1};
  const auto compute = [&](KernelChoice kernels) {
    kernels.fp8_cache = true;
    return Compute(held, kernels, request);
  };
  const Logits wanted = compute(BestCpu());
  const Logits got = compute(OnDevice());
  ASSERT_EQ(got.size(), wanted.size());
  ASSERT_FALSE(wanted.empty());
  float range = 0.0f;
  float difference = 0.0f;
  for (const auto& [position, logits] : wanted) {
    for (size_t i = 0; i < logits.size(); ++i) {
      range = std::max(range, std::abs(logits[i]));
      difference = std::max(difference, std::abs(logits[i] - got.at(position)[i]));
    }
  }
  // Rounding sometimes moves an element to a neighbouring value.
  EXPECT_LE(difference, 0.02f * range);
  std::cout << difference / range << " of the range\n";
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedFp8CacheTest,
                         testing::Values("small", "small_latent", "grouped_heads",
                                         "deepseek_heads"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace janus::dataplane
