// Whole workers on the emulated device: what Prepare loads there, what the next epoch keeps, and
// what does not fit.

#include <gtest/gtest.h>

#include <algorithm>

#include "common/model/config.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"
#include "tests/support/golden.h"
#include "tests/unit/dataplane/worker/service_under_test.h"

namespace janus::dataplane {
namespace {

const auto kOn = [](const PrepareProgress&) { return true; };

GoldenCase ShortGreedyCase(const Golden& golden) {
  for (const GoldenCase& c : golden.cases) {
    if (!c.greedy_ids.empty() && c.prompt.size() < 20) return c;
  }
  JANUS_CHECK(false, golden.folder);
  return {};
}

v1::ToAttention Ask(const GoldenCase& c) {
  v1::ToAttention message =
      TestGateway::Submit(1, std::vector<uint32_t>(c.prompt.begin(), c.prompt.end()),
                          static_cast<uint32_t>(c.greedy_ids.size()));
  message.mutable_submit()->set_ignore_eos(true);
  return message;
}

std::vector<int32_t> TokensOf(const v1::RequestTokens& answer) {
  return {answer.tokens().begin(), answer.tokens().end()};
}

class EmulatedWorkerTest : public testing::Test {
 protected:
  const Golden golden_ = ReadGolden("mixtral");
  const GoldenCase case_ = ShortGreedyCase(golden_);
  const ModelDescription model_ = *LoadModelConfig(golden_.folder);
  kernels::EmulatedDevice attention_;
  kernels::EmulatedDevice experts_;
};

TEST_F(EmulatedWorkerTest, AnswersAsTheReferenceImplementation) {
  ServiceUnderTest service("", attention_, experts_);
  service.Serve();
  TestGateway gateway(service.attention());
  gateway.Hello();
  gateway.Send(Ask(case_));
  const v1::RequestTokens answer = gateway.ReadToTheEnd(1);
  EXPECT_EQ(TokensOf(answer), case_.greedy_ids) << answer.error();
  EXPECT_GT(attention_.launches(), 0u);
  EXPECT_GT(experts_.launches(), 0u);
}

// Across memory domains, one of which is named as another machine.
TEST_F(EmulatedWorkerTest, TheNetworksDeviceIsTheOneNearItsGpu) {
  attention_.Plug("0000:3B:00.0");
  experts_.Plug("0000:5E:00.0");
  testing::internal::CaptureStderr();
  {
    ServiceUnderTest service("", attention_, experts_);
    service.topology().attention[0].domain = "here";
    service.topology().experts[0].domain = "there";
    service.topology().experts[0].exchange_address = "tcp:0.0.0.0:0";
    service.Serve();
    TestGateway gateway(service.attention());
    gateway.Hello();
    gateway.Send(Ask(case_));
    const v1::RequestTokens answer = gateway.ReadToTheEnd(1);
    EXPECT_EQ(TokensOf(answer), case_.greedy_ids) << answer.error();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Contains(log, "for=\"GPU 0000:3b:00.0\""));
  EXPECT_TRUE(Contains(log, "for=\"GPU 0000:5e:00.0\""));
}

// Under a running request, experts change their slots and no expert is copied up again.
TEST_F(EmulatedWorkerTest, WeightsStayFromOneEpochToTheNext) {
  ServiceUnderTest service("", attention_, experts_);
  service.Serve();
  const kernels::ContextCounts first = experts_.counts();
  TestGateway gateway(service.attention());
  gateway.Hello();
  gateway.Send(Ask(case_));
  service.topology().epoch = 2;
  const uint64_t stepped = experts_.counts().copies_in;
  std::vector<uint16_t>& experts = service.topology().placement.expert_of;
  std::reverse(experts.begin(), experts.begin() + model_.moe.experts);
  service.Serve();
  const v1::RequestTokens answer = gateway.ReadToTheEnd(1);
  EXPECT_EQ(TokensOf(answer), case_.greedy_ids) << answer.error();
  const auto weights =
      static_cast<uint64_t>(model_.moe_layers()) * static_cast<uint64_t>(model_.moe.experts) * 3 *
      static_cast<uint64_t>(model_.moe.intermediate * model_.hidden) * sizeof(float);
  EXPECT_GE(first.bytes_loaded, weights);
  EXPECT_LT(first.bytes_in, weights / 4) << "weights went by the stream of steps";
  EXPECT_GT(experts_.counts().copies_in, stepped);
  EXPECT_EQ(experts_.counts().bytes_loaded, first.bytes_loaded);
}

// A refusal, not the end of the process: another epoch may need less.
TEST_F(EmulatedWorkerTest, WhatDoesNotFitTheDeviceIsRefused) {
  kernels::EmulatedDevice small(size_t{64} << 10);
  {
    ServiceUnderTest service("", small, experts_);
    const Status refused = service.PrepareAttention(kOn);
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.ToString();
    EXPECT_TRUE(Contains(refused.message(), "of the emulated device's memory"));
    EXPECT_TRUE(service.failures().empty());
  }
  {
    ServiceUnderTest service("", attention_, small);
    const Status refused =
        service.experts().worker().Prepare({ServiceUnderTest::kUid, ServiceUnderTest::kFence, 1},
                                           service.topology(), {}, std::string(16, 'k'), kOn);
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.ToString();
    EXPECT_TRUE(service.failures().empty());
  }
  EXPECT_FALSE(small.has_failed());
}

TEST_F(EmulatedWorkerTest, KeysAndValuesAreBoundedByTheDevicesMemory) {
  ServiceUnderTest service("", attention_, experts_);
  service.room().kv_bytes = int64_t{1} << 30;
  service.room().swap_bytes = 1 << 20;
  const Status refused = service.PrepareAttention(kOn);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.ToString();
  EXPECT_TRUE(Contains(refused.message(), "KV cache: "));
  service.room().kv_bytes = 4 << 20;
  service.Serve();
}

TEST_F(EmulatedWorkerTest, TheHostMemoryForPrefixesIsPinnedBeforeTheFirstStep) {
  const auto pinned_with = [&](int64_t prefix_host_bytes) {
    ServiceUnderTest service("", attention_, experts_);
    service.room().prefix_host_bytes = prefix_host_bytes;
    service.Serve();
    return attention_.pinned_bytes();
  };
  const uint64_t without = pinned_with(0);
  const uint64_t more = pinned_with(1 << 20) - without;
  EXPECT_GT(more, uint64_t{1} << 19);
  EXPECT_LE(more, uint64_t{1} << 20);
}

// The planner gets the device's whole memory, however much of it the worker uses already.
TEST_F(EmulatedWorkerTest, ItsRoomIsItsMachinesAndItsDevices) {
  ServiceUnderTest service("", attention_, experts_);
  const auto room = [&] {
    grpc::ClientContext context;
    v1::DescribeModelRequest request;
    request.set_service_uid(ServiceUnderTest::kUid);
    v1::DescribeModelReply reply;
    EXPECT_TRUE(service.experts().control().DescribeModel(&context, request, &reply).ok());
    EXPECT_GT(reply.memory_bytes(), 0u);
    return reply.device_memory_bytes();
  };
  EXPECT_EQ(room(), uint64_t{256} << 20);
  service.Serve();
  EXPECT_GT(experts_.memory()->held, 0u);
  EXPECT_EQ(room(), uint64_t{256} << 20);
}

// A worker with a failed device reports that, and its owner can tell it from a lost peer.
TEST_F(EmulatedWorkerTest, ADeviceThatFailsEndsItsEpochAndIsKnownToHaveFailed) {
  ServiceUnderTest service("", attention_, experts_);
  service.Serve();
  experts_.Break();
  TestGateway gateway(service.attention());
  gateway.Hello();
  gateway.Send(Ask(case_));
  EXPECT_TRUE(Contains(service.AwaitFailure().message(), "the emulated device is broken"));
  EXPECT_TRUE(experts_.has_failed());
  EXPECT_FALSE(attention_.has_failed());
}

// Otherwise every later epoch would be prepared in a process that cannot compute any more.
TEST_F(EmulatedWorkerTest, ADeviceThatFailsWhileAnEpochIsPreparedIsTold) {
  ServiceUnderTest service("", attention_, experts_);
  experts_.Break();
  const Status refused = service.experts().worker().Prepare(
      {ServiceUnderTest::kUid, ServiceUnderTest::kFence, 1}, service.topology(), {},
      std::string(16, 'k'),
      [](const PrepareProgress& progress) { return progress.phase != "connect"; });
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(service.AwaitFailure(), refused);
  EXPECT_TRUE(experts_.has_failed());
}

}  // namespace
}  // namespace janus::dataplane
