#include <gtest/gtest.h>

#include <cstring>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/networks.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};

// More than sockets buffer: it cannot have left before its reader reads.
TEST(Settle, IsFalseWhileUcxStillReadsWhatWasPosted) {
  ExchangeShape shape;
  shape.hidden = 8192;
  shape.top_k = 1;
  shape.max_rows = 1024;
  shape.m = shape.n = 1;
  for (const NetworkKind& kind : AllNetworks()) {
    if (kind.name != "Ucx") continue;
    Network network = kind.connect(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}), WaitPolicy());
    Transport& attention = network.attention(0);
    const std::span<std::byte> payload = attention.Payload(0);
    ASSERT_GE(payload.size(), size_t{32} << 20);
    std::memset(payload.data(), 1, payload.size());
    EXPECT_TRUE(attention.Settle());
    Header header = MakeHeader(MessageKind::kRows, {}, 0, 1024);
    header.bytes = payload.size();
    ASSERT_EQ(attention.Post(0, header), OkStatus());
    for (int i = 0; i < 100; ++i) ASSERT_FALSE(attention.Settle());
    // Data written only now must not be in the posted message.
    SlotMessage message;
    const auto taken = [&] {
      (void)attention.Settle();
      return network.experts(0).Take(kAttention0, 0, message);
    };
    ASSERT_TRUE(network.experts(0)
                    .Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)), taken)
                    .ok());
    const Status settled = attention.Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)),
                                          [&] { return attention.Settle(); });
    EXPECT_TRUE(settled.ok()) << settled.ToString();
    std::memset(payload.data(), 2, payload.size());
    for (const std::byte byte : message.payload) ASSERT_EQ(byte, std::byte{1});
    return;
  }
  FAIL() << "no UCX";
}

}  // namespace
}  // namespace janus::dataplane
