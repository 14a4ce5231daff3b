// Loads another set of weights while one computes on the same device.

#include <gtest/gtest.h>

#include <thread>

#include "kernels/device/uploader.h"
#include "tests/integration/device/made_device.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/schedule.h"

namespace janus::dataplane {
namespace {

// On one device: steps with one set of weights, loads of another, repeatedly.
TEST(LoadingBesideSteps, ChangesNoTokenAndTakesNothingOfTheSteps) {
  const HeldModel held = SmallLatentModel(DType::kBFloat16, 1);
  const HeldModel other = SmallLatentModel(DType::kBFloat16, 2);
  LoopbackCluster::Options options;
  options.topology = MakeTopology(1, {8}, held.model.moe_layers(), held.model.moe.experts, 1, 16);
  options.attention.kv_bytes = 1 << 18;
  options.attention.max_batch = 8;
  options.device = kernels::Device::kCuda;
  options.make_context = kernels::MakeDevice;
  const std::vector<ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
  Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = 40;
  const auto ask = [&](uint64_t id) {
    request.key = {1, id, 1};
    EXPECT_TRUE(cluster.attention(0).Submit(request).ok());
  };
  ask(1);
  const std::vector<int32_t> alone = cluster.Await(request.key).tokens;
  kernels::Context& context = cluster.expert_context(0);
  const uint64_t stepped = context.counts().bytes_in;
  const auto uploader = *kernels::Uploader::Make(context, {.piece_bytes = 2000, .pieces = 3});
  const uint64_t held_before = context.memory()->held;
  const uint64_t before = context.counts().bytes_loaded;
  ask(2);
  int sets = 0;
  LoopbackCluster::Outcome beside;
  {
    std::jthread steps([&] { beside = cluster.Await(request.key); });
    for (; sets < 6; ++sets) {
      const auto placed = *PlaceExperts(*uploader, other.model, other.experts);
      EXPECT_NE(placed.loaded, nullptr);
    }
  }
  EXPECT_TRUE(beside.error.ok()) << beside.error.ToString();
  EXPECT_EQ(beside.tokens, alone);
  const uint64_t a_set = (context.counts().bytes_loaded - before) / static_cast<uint64_t>(sets);
  EXPECT_LT(context.counts().bytes_in - stepped, 2 * stepped) << "of as many steps as before";
  const ModelDescription& m = other.model;
  const int64_t an_expert = 3 * int64_t{m.moe.intermediate} * m.hidden;
  EXPECT_EQ(a_set,
            static_cast<uint64_t>(m.moe_layers() * m.moe.experts * (m.hidden + an_expert)) * 2);
  // The last set's loads may be in flight; its memory is freed after them.
  ASSERT_TRUE(context.Await(**uploader->Loaded()).ok());
  if (context.numerics() == "emulated") {  // a GPU's pool keeps whole pages
    EXPECT_EQ(context.memory()->held, held_before);
  }
}

}  // namespace
}  // namespace janus::dataplane
