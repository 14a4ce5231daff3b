// Whole instances: between the rounds of two layers, including kernels, an attention and an expert
// instance allocate nothing. The exception is the ticket of the next step, which is received or
// issued meanwhile and allocates its memory. The test prints what a step allocates at its borders
// (the batch, its tokens).

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "tests/integration/allocations/allocations.h"
#include "tests/integration/allocations/networks.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/passing_transport.h"

namespace janus::dataplane {
namespace {

// A post of rows or contributions, and its thread's allocations until then.
struct Posted {
  uint64_t step;
  int layer;
  uint64_t allocations;
};

// Records every post and passes everything on. Confined to the step thread.
class NotingTransport final : public PassingTransport {
 public:
  NotingTransport(std::unique_ptr<Transport> inner, std::vector<Posted>& notes)
      : PassingTransport(std::move(inner)), notes_(notes) {}

  Status Post(int slot, const Header& header) override {
    if (notes_.size() < notes_.capacity())
      notes_.push_back({header.step, header.layer, AllocationsOfThisThread().ours});
    return PassingTransport::Post(slot, header);
  }

 private:
  std::vector<Posted>& notes_;
};

class StepTest : public testing::TestWithParam<NetworkKind> {};

TEST_P(StepTest, AllocatesNothingBetweenItsRounds) {
  constexpr int kTokens = 60;
  constexpr uint64_t kWarmSteps = 20;
  const HeldModel held = SmallLatentModel(DType::kBFloat16, 1);
  LoopbackCluster::Options options;
  options.topology = MakeTopology(2, {7, 7}, held.model.moe_layers(), held.model.moe.experts, 2);
  options.attention.kv_bytes = 1 << 22;
  options.attention.max_batch = 8;
  options.connect = GetParam().connect;
  std::map<PeerId, std::vector<Posted>> notes;
  options.wrap_transport = [&](PeerId self, std::unique_ptr<Transport> inner) {
    std::vector<Posted>& own = notes[self];
    own.reserve(10'000);
    return std::make_unique<NotingTransport>(std::move(inner), own);
  };
  const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
  {
    LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
    std::vector<RequestKey> keys;
    for (int i = 0; i < 6; ++i) {
      Request request;
      request.key = {1, static_cast<uint64_t>(i), 1};
      request.prompt = {5, 6 + i, 7};
      request.max_tokens = kTokens;
      keys.push_back(request.key);
      ASSERT_TRUE(cluster.attention(i % 2).Submit(std::move(request)).ok());
    }
    for (const RequestKey& key : keys) ASSERT_TRUE(cluster.Await(key).error.ok());
  }
  for (const auto& [peer, posts] : notes) {
    std::map<uint64_t, int> busy;       // by step: intervals between posts with allocations
    std::map<uint64_t, int> intervals;  // all intervals
    std::vector<uint64_t> of_step;
    uint64_t first = 0;
    for (size_t i = 1; i < posts.size(); ++i) {
      const Posted& from = posts[i - 1];
      const Posted& to = posts[i];
      if (to.step <= kWarmSteps) continue;
      if (from.step == to.step) {
        ++intervals[to.step];
        busy[to.step] += to.allocations > from.allocations;
      } else {
        if (first > 0) of_step.push_back(to.allocations - first);
        first = to.allocations;
      }
    }
    ASSERT_GT(intervals.size(), 20u) << peer;
    for (const auto& [step, count] : busy) {
      EXPECT_LE(count, 1) << peer << " step " << step << ": of " << intervals[step];
    }
    std::ranges::sort(of_step);
    std::cout << peer << ": " << intervals.size() << " steps, allocations of a whole one: median "
              << of_step[of_step.size() / 2] << ", most " << of_step.back() << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(All, StepTest, testing::ValuesIn(EveryNetwork()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
