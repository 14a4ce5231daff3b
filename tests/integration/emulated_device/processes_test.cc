// Instances that are separate processes, each with its own emulated device. Exchanges through host
// memory and in place give the same bits as threads of one process.

#include <gtest/gtest.h>
#include <unistd.h>

#include "bench/gpu/process_serving.h"
#include "bench/gpu/serving.h"
#include "tests/integration/emulated_device/on_device.h"
#include "tests/support/contains.h"
#include "tests/support/passing_exchange.h"

namespace janus::bench {
namespace {

using dataplane::HeldModel;
using dataplane::OnDevices;
using dataplane::PeerId;

constexpr ServingLoad kLoad{5, 7, 12};

// Made once, before there are processes.
ProcessService ServiceOf(const HeldModel& held) {
  return {.options = OnDevices(), .make_model = [&held] { return held; }};
}

TEST(Processes, GiveTheBitsOfThreads) {
  const HeldModel held = dataplane::SmallLatentModel(DType::kBFloat16, 4);
  const int experts = held.model.moe.experts;
  const auto clock = MakeHostClock();
  const uint64_t want = Serve(held, OnDevices(), *clock, {1, {experts}}, kLoad)->Digest();
  for (const bool in_place : {false, true}) {
    const ServingTopology topology = {.m = 2,
                                      .slots = {experts / 2, experts / 2, experts / 2},
                                      .micro_batches = 2,
                                      .in_place = in_place,
                                      .has_processes = true};
    const Result<Served> served = ServeByProcesses(ServiceOf(held), topology, kLoad);
    ASSERT_TRUE(served.ok()) << served.status().ToString();
    EXPECT_EQ(served->Digest(), want) << topology.name();
    ASSERT_EQ(served->tokens.size(), 5u);
    for (const auto& tokens : served->tokens) EXPECT_EQ(tokens.size(), 12u);
    for (const auto& bits : served->logit_bits) EXPECT_EQ(bits.size(), 8u);
    EXPECT_GT(served->seconds, 0.0);
  }
}

// Ends its process if a row or a contribution is not on the device.
class ReadsInPlace final : public dataplane::PassingExchange {
 public:
  using PassingExchange::PassingExchange;
  std::byte* DeviceRows(int micro_batch) override {
    std::byte* const rows = PassingExchange::DeviceRows(micro_batch);
    if (rows == nullptr) _exit(41);
    return rows;
  }
  Result<bool> Poll(const dataplane::RoundKey& key) override {
    JANUS_ASSIGN_OR_RETURN(const bool all, PassingExchange::Poll(key));
    if (!all) return false;
    const auto contributions = Contributions(key.micro_batch);
    const auto on_device = OnDevice(key.micro_batch);
    for (size_t i = 0; i < contributions.size(); ++i) {
      if (on_device[i] == 0) _exit(42);
    }
    return true;
  }
};

TEST(Processes, WhatIsInPlaceStaysThere) {
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  ProcessService service = ServiceOf(held);
  service.options.wrap_exchange = [](std::unique_ptr<dataplane::AttentionExchange> under) {
    return std::make_unique<ReadsInPlace>(std::move(under));
  };
  const int experts = held.model.moe.experts;
  ServingTopology topology = {
      .m = 2, .slots = {experts, experts}, .in_place = true, .has_processes = true};
  const Result<Served> served = ServeByProcesses(service, topology, {2, 3, 4});
  EXPECT_TRUE(served.ok()) << served.status().ToString();
  topology.m = 1;
  topology.in_place = false;
  EXPECT_TRUE(Contains(ServeByProcesses(service, topology, {2, 3, 4}).status().message(),
                       "has ended with status 41"));
}

TEST(Processes, WhyAProcessDoesNotServeIsKnownByItsExit) {
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  for (const auto& [exit, code] : {std::pair{kNotInPlace, StatusCode::kFailedPrecondition},
                                   {kOtherTokens, StatusCode::kDataLoss}}) {
    ProcessService service = ServiceOf(held);
    service.options.wrap_transport = [exit = exit](PeerId,
                                                   std::unique_ptr<dataplane::Transport> under) {
      _exit(exit);
      return under;
    };
    const Status status =
        ServeByProcesses(
            service, {.m = 1, .slots = {held.model.moe.experts}, .has_processes = true}, {2, 3, 4})
            .status();
    EXPECT_EQ(status.code(), code) << status.ToString();
  }
}

TEST(Processes, OneThatEndsBeforeItsTimeIsNamed) {
  const HeldModel held = dataplane::SmallRandomModel(DType::kBFloat16, 4);
  ProcessService service = ServiceOf(held);
  service.options.wrap_transport = [](PeerId self, std::unique_ptr<dataplane::Transport> under) {
    if (self == PeerId{Role::kExperts, Rank{1}}) _exit(7);
    return under;
  };
  const int experts = held.model.moe.experts;
  const Status status =
      ServeByProcesses(
          service, {.m = 1, .slots = {experts, experts}, .in_place = true, .has_processes = true},
          {2, 3, 4})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(status.message(), "has ended")) << status.ToString();
}

}  // namespace
}  // namespace janus::bench
