#include "dataplane/comm/transport/transport.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/contains.h"
#include "tests/support/networks.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kAttention1{Role::kAttention, Rank{1}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};

class TransportTest : public testing::TestWithParam<NetworkKind> {
 protected:
  TransportTest() {
    ExchangeShape shape;
    shape.hidden = 8;
    shape.top_k = 2;
    shape.max_rows = 4;
    shape.m = 2;
    shape.n = 2;
    network_ = GetParam().connect(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}), WaitPolicy());
  }
  Header ControlHeader(uint32_t count) { return MakeHeader(MessageKind::kDemand, {}, 1, count); }
  Network network_;
};

TEST_P(TransportTest, SlotsAreAlignedAndAsLargeAsTheLayoutSays) {
  for (const SlotSpec& slot : network_.layout.slots) {
    Transport& owner = slot.owner.role == Role::kAttention
                           ? network_.attention(slot.owner.rank.value)
                           : network_.experts(slot.owner.rank.value);
    const std::span<std::byte> payload = owner.Payload(slot.index);
    EXPECT_EQ(payload.size(), slot.bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(payload.data()) % 64, 0u);
  }
}

TEST_P(TransportTest, ASlotReachesAllItsReadersOnce) {
  Transport& attention = network_.attention(1);
  std::memset(attention.Payload(0).data(), 0x5a, 32);
  Header header = MakeHeader(MessageKind::kRows, {}, 1, 1);
  header.bytes = 32;
  ASSERT_TRUE(attention.Post(0, header).ok());
  for (int e = 0; e < 2; ++e) {
    SlotMessage message;
    ASSERT_TRUE(AwaitTake(network_.experts(e), kAttention1, 0, message));
    ASSERT_EQ(message.payload.size(), 32u);
    EXPECT_EQ(message.payload[31], std::byte{0x5a});
    EXPECT_EQ(message.header.sender, 1);
    EXPECT_FALSE(network_.experts(e).Take(kAttention1, 0, message)) << "taken already";
    EXPECT_FALSE(network_.experts(e).Take(kAttention0, 0, message)) << "another's slot";
  }
}

// A sender computes after its post; the message must travel meanwhile.
TEST_P(TransportTest, ALargeMessageNeedsNoFurtherCallOfItsSender) {
  ExchangeShape shape;
  shape.hidden = 4096;
  shape.top_k = 2;
  shape.max_rows = 32;
  shape.m = shape.n = 1;
  Network network =
      GetParam().connect(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}), WaitPolicy());
  Transport& attention = network.attention(0);
  const std::span<std::byte> payload = attention.Payload(0);
  ASSERT_GE(payload.size(), size_t{32} * 4096 * 2);
  std::memset(payload.data(), 0x5a, payload.size());
  Header header = MakeHeader(MessageKind::kRows, {}, 0, 1);
  header.bytes = payload.size();
  ASSERT_TRUE(attention.Post(0, header).ok());
  SlotMessage message;
  ASSERT_TRUE(AwaitTake(network.experts(0), kAttention0, 0, message));
  ASSERT_EQ(message.payload.size(), payload.size());
  EXPECT_EQ(message.payload.back(), std::byte{0x5a});
}

TEST_P(TransportTest, TakesTheNewestOfSeveralPosts) {
  Header header = MakeHeader(MessageKind::kRows, {}, 0, 0);
  for (uint32_t count = 1; count <= 3; ++count) {
    header.count = count;
    ASSERT_TRUE(network_.attention(0).Post(0, header).ok());
  }
  SlotMessage message;
  // The older messages may be seen on the way; the newest is the last.
  do {
    ASSERT_TRUE(AwaitTake(network_.experts(0), kAttention0, 0, message));
  } while (message.header.count < 3);
  EXPECT_FALSE(network_.experts(0).Take(kAttention0, 0, message));
}

TEST_P(TransportTest, ControlArrivesInOrderOnceAndWhole) {
  std::vector<std::byte> sent(kMaxControlBytes);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  for (uint32_t i = 0; i < 5; ++i) {
    const auto part = std::span(sent).first(i == 3 ? sent.size() : i);
    ASSERT_TRUE(network_.attention(1).Send(kAttention0, ControlHeader(i), part).ok());
  }
  Header header;
  std::vector<std::byte> payload;
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(AwaitReceive(network_.attention(0), kAttention1, header, payload));
    EXPECT_EQ(header.count, i);
    EXPECT_EQ(header.kind, MessageKind::kDemand);
    ASSERT_EQ(payload.size(), i == 3 ? sent.size() : i);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), sent.begin()));
  }
  EXPECT_FALSE(network_.attention(0).Receive(kAttention1, header, payload));
  EXPECT_FALSE(network_.experts(0).Receive(kAttention1, header, payload)) << "not for this one";
}

TEST_P(TransportTest, AFullControlQueueSaysNoAndNamesThePair) {
  for (uint64_t i = 0; i < kControlQueueDepth; ++i) {
    ASSERT_TRUE(
        network_.attention(0).Send(kExperts0, ControlHeader(static_cast<uint32_t>(i)), {}).ok());
  }
  const Status full = network_.attention(0).Send(kExperts0, ControlHeader(999), {});
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Contains(full.message(), "experts 0"));
  EXPECT_TRUE(Contains(full.message(), "attention 0"));
  EXPECT_TRUE(network_.attention(1).Send(kExperts0, ControlHeader(1), {}).ok()) << "another pair";
  Header header;
  std::vector<std::byte> payload;
  ASSERT_TRUE(AwaitReceive(network_.experts(0), kAttention0, header, payload));
  EXPECT_EQ(header.count, 0u);
  // There is room for one once the credit has arrived.
  EXPECT_TRUE(
      network_.attention(0)
          .Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                [&] { return network_.attention(0).Send(kExperts0, ControlHeader(64), {}).ok(); })
          .ok());
  for (uint32_t i = 1; i <= 64; ++i) {
    ASSERT_TRUE(AwaitReceive(network_.experts(0), kAttention0, header, payload));
    EXPECT_EQ(header.count, i) << "what was refused is not there";
  }
}

TEST_P(TransportTest, WaitEndsAtItsDeadline) {
  const Status waited = network_.attention(0).Wait(
      MonotonicClock::now() + std::chrono::milliseconds(5), [] { return false; });
  EXPECT_EQ(waited.code(), StatusCode::kDeadlineExceeded);
}

TEST_P(TransportTest, WhatIsReadyNeedsNoTime) {
  EXPECT_TRUE(network_.attention(0).Wait(MonotonicTime(), [] { return true; }).ok());
}

TEST_P(TransportTest, WakeEndsAWait) {
  std::atomic<bool> ready{false};
  std::jthread waker([&] {
    ready = true;
    network_.experts(1).Wake();
  });
  EXPECT_TRUE(network_.experts(1)
                  .Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                        [&] { return ready.load(); })
                  .ok());
}

TEST_P(TransportTest, PostsAndMessagesWakeWhoWaits) {
  const MonotonicTime deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  Header header;
  std::vector<std::byte> payload;
  std::jthread peer([&] {
    for (uint32_t i = 0; i < 200; ++i) {
      EXPECT_TRUE(network_.attention(0).Send(kExperts0, ControlHeader(i), {}).ok());
      EXPECT_TRUE(network_.attention(0)
                      .Wait(deadline,
                            [&] {
                              SlotMessage reply;
                              return network_.attention(0).Take(kExperts0, 0, reply) &&
                                     reply.header.count == i;
                            })
                      .ok());
    }
  });
  for (uint32_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(network_.experts(0)
                    .Wait(deadline,
                          [&] { return network_.experts(0).Receive(kAttention0, header, payload); })
                    .ok());
    ASSERT_TRUE(network_.experts(0)
                    .Post(0, MakeHeader(MessageKind::kContributions, {}, 0, header.count))
                    .ok());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::ValuesIn(AllNetworks()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
