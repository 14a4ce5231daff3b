// The program that serves a random model on a GPU (bench/gpu/serve_gpu_bench.cc), driven on
// emulated devices: its lines, that it goes on where it stopped, and that it tells tokens which
// differ.

#include "bench/gpu/serving.h"

#include <gtest/gtest.h>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/temp_folder.h"

namespace janus::bench {
namespace {

using dataplane::HeldModel;
using dataplane::LoopbackCluster;

LoopbackCluster::Options OnDevices() {
  LoopbackCluster::Options options;
  options.device = kernels::Device::kCuda;
  options.make_context = dataplane::OnDevice().make_context;
  return options;
}

int LinesOf(const std::string& path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

TEST(Serving, EveryTopologyHasALineAndIsServedOnce) {
  const TempFolder folder;
  const std::string path = folder.path() + "/results";
  const HeldModel held = dataplane::SmallLatentModel(DType::kBFloat16, 4);
  const int experts = held.model.moe.experts;
  const std::vector<ServingTopology> topologies = {{1, {experts}}, {2, {experts, experts / 2}, 2}};
  const ServingLoad load{3, 5, 4};
  for (int run = 0; run < 2; ++run) {
    kernels::cuda::Results results(path);
    EXPECT_TRUE(ServeAll("small", held, OnDevices(), topologies, load, results));
    EXPECT_EQ(LinesOf(path), 2);
    const std::string second = "small, 2A2E, 2 micro-batches, batch 3, prompt 5";
    EXPECT_EQ(results.Find(second, "same_tokens"), 1.0);
    EXPECT_GT(results.Find(second, "tokens_per_second"), 0.0);
    EXPECT_GT(results.Find(second, "tpot_ms"), 0.0);
    EXPECT_GT(results.Find(second, "step_ms"), 0.0);
    EXPECT_GE(results.Find(second, "wait_share"), 0.0);
    EXPECT_GE(results.Find(second, "host_share"), 0.0);
  }
}

TEST(Serving, AnswersAreAsLongAsAskedFor) {
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  const Served served =
      Serve(held, OnDevices(), {2, {held.model.moe.experts}}, ServingLoad{3, 5, 4});
  ASSERT_EQ(served.tokens.size(), 3u);
  for (const auto& tokens : served.tokens) EXPECT_EQ(tokens.size(), 4u);
  EXPECT_NE(served.tokens[0], served.tokens[1]);
}

}  // namespace
}  // namespace janus::bench
