// The program that serves a random model on a GPU (bench/gpu/serve_gpu_bench.cc), on emulated
// devices. Checks its output lines, that it resumes where it stopped, and that it reports different
// bits.

#include "bench/gpu/serving.h"

#include <gtest/gtest.h>

#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/temp_folder.h"

namespace janus::bench {
namespace {

using dataplane::HeldModel;
using dataplane::OnDevices;

int LinesOf(const std::string& path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.starts_with("{\"bench\"") ? 1 : 0;
  return lines;
}

TEST(Serving, EveryTopologyHasALineAndIsServedOnce) {
  const TempFolder folder;
  const std::string path = folder.path() + "/results";
  const HeldModel held = dataplane::SmallLatentModel(DType::kBFloat16, 4);
  const int experts = held.model.moe.experts;
  const std::vector<ServingTopology> topologies = {{1, {experts}},
                                                   {2, {experts, experts / 2}, 2},
                                                   {.m = 2, .slots = {experts}, .in_place = true},
                                                   {.m = 1, .slots = {experts}, .is_whole = true}};
  const ServingLoad load{3, 5, 40};
  // If the machine delays this thread, an answer may be over before it looks.
  int timed = 0, watched = 0;
  for (int run = 0; run < 2; ++run) {
    kernels::cuda::Results results(path);
    EXPECT_TRUE(ServeAll("small", held, OnDevices(), MakeHostClock, topologies, load, results));
    EXPECT_EQ(LinesOf(path), 4);
    for (const std::string of : {"1A1E", "2A2E, 2 micro-batches", "2A1E, in place",
                                 "one process, rows through host memory"}) {
      const std::string line = "small, " + of + ", batch 3, prompt 5, answer 40";
      EXPECT_EQ(results.Find(line, "same_bits"), 1.0) << of;
      EXPECT_GT(results.Find(line, "tokens_per_second"), 0.0) << of;
      EXPECT_GE(results.Find(line, "tpot_ms"), 0.0) << of;
      EXPECT_GT(results.Find(line, "step_ms"), 0.0) << of;
      EXPECT_GE(results.Find(line, "wait_share"), 0.0) << of;
      EXPECT_GE(results.Find(line, "host_share"), 0.0) << of;
      EXPECT_GE(results.Find(line, "outside_kernels_share"), 0.0) << of;
      EXPECT_LE(results.Find(line, "outside_kernels_share"), 1.0) << of;
      timed += results.Find(line, "tpot_ms") > 0.0 ? 1 : 0;
      watched += results.Find(line, "outside_kernels_share") < 1.0 ? 1 : 0;
    }
  }
  EXPECT_GT(timed, 0);
  EXPECT_GT(watched, 0);
}

// Through host memory the measurement would not be what its name says.
TEST(Serving, WhatDoesNotGoInPlaceIsRefusedOnce) {
  const TempFolder folder;
  kernels::cuda::Results results(folder.path() + "/results");
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  dataplane::LoopbackCluster::Options options = OnDevices();
  options.make_context = [] {
    auto device = std::make_unique<kernels::EmulatedDevice>();
    device->RefuseFlags();
    return device;
  };
  const ServingTopology topology{.m = 1, .slots = {held.model.moe.experts}, .in_place = true};
  const ServingLoad load{2, 5, 3};
  const std::string line = LineOf("small", topology, load);
  for (int run = 0; run < 2; ++run) {
    EXPECT_TRUE(ServeAll("small", held, options, MakeHostClock, {topology}, load, results));
    EXPECT_TRUE(IsRefused(results, line));
    EXPECT_EQ(LinesOf(folder.path() + "/results"), 1);
  }
  EXPECT_EQ(results.Find(line, "bits"), -1.0);
  // The comparison over all loads does not wait for the refused one either.
  const ServingTopology through_host{.m = 1, .slots = {held.model.moe.experts}};
  results.Write(LineOf("small", through_host, load), "\"request_0_bits\": 11");
  EXPECT_TRUE(SameOverLoads("small", {topology, through_host}, {{load}}, results));
  EXPECT_EQ(results.Find("small, request 0 over batches of 2", "lines"), 1.0);
}

TEST(Serving, OtherTokensOfARequestThatComesAgainAreTold) {
  dataplane::LoopbackCluster::Outcome first, other;
  first.tokens = {1, 2};
  other.tokens = {1, 2, 3};
  Served served;
  served.tokens = {{1, 2}, {1}};
  EXPECT_TRUE(LoadClient::TakeTokens({first, other}, served).ok());
  EXPECT_EQ(served.tokens[1], other.tokens);
  EXPECT_EQ(LoadClient::TakeTokens({first, first}, served).code(), StatusCode::kDataLoss);
  other.tokens = {1, 2, 4, 5};
  EXPECT_EQ(LoadClient::TakeTokens({first, other}, served).code(), StatusCode::kDataLoss);
  other.tokens = {1, 2, 3, 5};
  EXPECT_TRUE(LoadClient::TakeTokens({first, other}, served).ok());
}

TEST(Serving, AServiceThatDiffersFromItselfHasALineAndIsServedOnce) {
  const TempFolder folder;
  kernels::cuda::Results results(folder.path() + "/results");
  const ServingTopology topology{.m = 1, .slots = {4}};
  const ServingLoad load{2, 5, 3};
  int served = 0;
  const ServeOne serve = [&](const ServingTopology&) -> Result<Served> {
    ++served;
    return DataLoss("request 1 has \"other\" tokens");
  };
  for (int run = 0; run < 2; ++run) {
    EXPECT_FALSE(ServeEach("small", serve, {topology}, load, results));
  }
  EXPECT_EQ(served, 1);
  EXPECT_EQ(results.Find(LineOf("small", topology, load), "same_bits"), 0.0);
  // Any other failure is tried again.
  served = 0;
  const ServeOne fail = [&](const ServingTopology&) -> Result<Served> {
    ++served;
    return Unavailable("a process has ended");
  };
  for (int run = 0; run < 2; ++run) {
    EXPECT_FALSE(ServeEach("other", fail, {topology}, load, results));
  }
  EXPECT_EQ(served, 2);
  EXPECT_EQ(LinesOf(folder.path() + "/results"), 1);
  std::stringstream text;
  text << std::ifstream(folder.path() + "/results").rdbuf();
  EXPECT_NE(text.str().find("\"says\": \"DataLoss: request 1 has \\\"other\\\" tokens\"}"),
            std::string::npos);
}

TEST(Serving, OtherBitsThanTheFirstTopologysAreTold) {
  const TempFolder folder;
  kernels::cuda::Results results(folder.path() + "/results");
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  const int experts = held.model.moe.experts;
  const ServingLoad load{2, 5, 3};
  const std::string first = "small, 1A1E, batch 2, prompt 5, answer 3";
  results.Write(first, "\"same_bits\": 1, \"bits\": 12345");
  // The first run serves; the second finds the result in the file.
  for (int run = 0; run < 2; ++run) {
    EXPECT_FALSE(ServeAll("small", held, OnDevices(), MakeHostClock,
                          {{1, {experts}}, {2, {experts}}}, load, results));
  }
  EXPECT_EQ(results.Find("small, 2A1E, batch 2, prompt 5, answer 3", "same_bits"), 0.0);
}

// One answer, alone and beside others, by one attention instance and by two.
TEST(Serving, ARequestsBitsAreTheSameInEveryBatch) {
  const TempFolder folder;
  const HeldModel held = dataplane::SmallLatentModel(DType::kBFloat16, 4);
  const int experts = held.model.moe.experts;
  const std::vector<ServingTopology> topologies = {{1, {experts}}, {2, {experts, experts / 2}}};
  const ServingLoad loads[] = {{6, 5, 9}, {1, 5, 9}, {13, 5, 9}};
  const std::string line = "small, request 0 over batches of 6, 1, 13";
  kernels::cuda::Results results(folder.path() + "/results");
  for (const ServingLoad& load : loads) {
    EXPECT_TRUE(SameOverLoads("small", topologies, loads, results));  // of the existing results
    EXPECT_EQ(results.Find(line, "same_bits"), -1.0);
    EXPECT_TRUE(ServeAll("small", held, OnDevices(), MakeHostClock, topologies, load, results));
  }
  for (int run = 0; run < 2; ++run) {
    EXPECT_TRUE(SameOverLoads("small", topologies, loads, results));
    EXPECT_EQ(LinesOf(folder.path() + "/results"), 7);
  }
  EXPECT_EQ(results.Find(line, "same_bits"), 1.0);
  EXPECT_EQ(results.Find(line, "lines"), 6.0);
  EXPECT_NE(results.Find("small, 1A1E, batch 6, prompt 5, answer 9", "bits"),
            results.Find("small, 1A1E, batch 13, prompt 5, answer 9", "bits"));
}

TEST(Serving, OtherBitsOfARequestInAnotherBatchAreTold) {
  const TempFolder folder;
  kernels::cuda::Results results(folder.path() + "/results");
  const std::vector<ServingTopology> topologies = {{1, {7}}, {2, {7}}};
  const ServingLoad loads[] = {{64, 5, 9}, {1, 5, 9}};
  for (const ServingLoad& load : loads) {
    for (const ServingTopology& topology : topologies) {
      const bool other = load.batch == 1 && topology.m == 2;
      results.Write(LineOf("small", topology, load),
                    std::string("\"request_0_bits\": ") + (other ? "12" : "11"));
    }
  }
  EXPECT_FALSE(SameOverLoads("small", topologies, loads, results));
  EXPECT_EQ(results.Find("small, request 0 over batches of 64, 1", "same_bits"), 0.0);
  // The second time the result is in the file.
  EXPECT_FALSE(SameOverLoads("small", topologies, loads, results));
}

TEST(Serving, AnswersAreAsLongAsAskedForAndTheirFirstTokensHashed) {
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  const auto clock = MakeHostClock();
  Served served =
      *Serve(held, OnDevices(), *clock, {2, {held.model.moe.experts}}, ServingLoad{3, 5, 12});
  ASSERT_EQ(served.tokens.size(), 3u);
  for (const auto& tokens : served.tokens) EXPECT_EQ(tokens.size(), 12u);
  for (const auto& bits : served.logit_bits) EXPECT_EQ(bits.size(), 8u);
  EXPECT_NE(served.tokens[0], served.tokens[1]);
  const uint64_t digest = served.Digest();
  served.logit_bits[2][7] ^= uint64_t{1} << 63;
  EXPECT_NE(served.Digest(), digest);
  served.logit_bits[2][7] ^= uint64_t{1} << 63;
  EXPECT_EQ(served.Digest(), digest);
  ++served.tokens[1][11];
  EXPECT_NE(served.Digest(), digest);
  EXPECT_LT(digest, uint64_t{1} << 48);
  const uint64_t of_first = served.DigestOf(0);
  const uint64_t of_second = served.DigestOf(1);
  EXPECT_NE(of_first, of_second);
  EXPECT_LT(of_first, uint64_t{1} << 48);
  --served.tokens[1][11];
  EXPECT_EQ(served.DigestOf(0), of_first);
  EXPECT_NE(served.DigestOf(1), of_second);
  served.logit_bits[0][3] ^= 1;
  EXPECT_NE(served.DigestOf(0), of_first);
}

}  // namespace
}  // namespace janus::bench
