#include "dataplane/comm/handshake/pending_connections.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>

#include "tests/support/raw_caller.h"
#include "tests/support/temp_folder.h"

namespace janus::dataplane {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Over a Unix socket: bytes that were sent are readable at once.
class PendingConnectionsTest : public testing::Test {
 protected:
  Fd Dial() { return DialExchange(pending_->listener().address()); }
  // The whole HELLOs at `now_`, in as many passes as needed.
  std::vector<ReceivedHello> Hear() {
    std::vector<ReceivedHello> all;
    for (int i = 0; i < 10; ++i) {
      for (ReceivedHello& received : pending_->Pass(now_)) all.push_back(std::move(received));
    }
    return all;
  }
  // The refusals counted since the last call: "timeout 2".
  std::string Counted() {
    std::string text;
    for (const ExchangeRefusal refusal : kExchangeRefusals) {
      uint64_t& before = before_[static_cast<size_t>(refusal)];
      const uint64_t more = counts_.of(refusal) - before;
      before += more;
      if (more == 0) continue;
      text +=
          (text.empty() ? "" : ", ") + std::string(ToString(refusal)) + " " + std::to_string(more);
    }
    return text;
  }

  const TempFolder folder_;
  MetricRegistry registry_;
  ExchangeRefusalCounts counts_{registry_};
  std::array<uint64_t, std::size(kExchangeRefusals)> before_{};
  const std::unique_ptr<PendingConnections> pending_ = *PendingConnections::Create(
      *ListeningSocket::Create("unix:" + folder_.path() + "/listener"), &counts_);
  MonotonicTime now_{seconds(1000)};
};

TEST_F(PendingConnectionsTest, HearsAHelloHoweverItIsCut) {
  const Fd whole = Dial(), cut = Dial();
  Hello hello;
  hello.epoch = 7;
  hello.address_bytes = 5;
  ASSERT_TRUE(Say(whole, std::string(BytesOf(hello)) + "there"));
  ASSERT_TRUE(Say(cut, BytesOf(hello).substr(0, 100)));
  std::vector<ReceivedHello> heard = Hear();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].hello.epoch, 7u);
  EXPECT_EQ(heard[0].address, "there");
  EXPECT_EQ(pending_->half_open(), 1u);
  ASSERT_TRUE(Say(cut, BytesOf(hello).substr(100)));
  EXPECT_EQ(Hear().size(), 0u) << "the address is missing";
  ASSERT_TRUE(Say(cut, "here!"));
  heard = Hear();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].address, "here!");
  EXPECT_EQ(pending_->half_open(), 0u);
  EXPECT_EQ(pending_->next(), std::nullopt);
  // The connection belongs to its new owner: its bytes no longer wake the listener.
  ASSERT_TRUE(Say(cut, "more"));
  pollfd polled{pending_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_FALSE(IsClosed(cut));
  EXPECT_EQ(Counted(), "");
}

TEST_F(PendingConnectionsTest, BytesDoNotPutADeadlineOff) {
  const Fd trickler = Dial(), silent = Dial();
  Hello hello;
  const std::string_view bytes = BytesOf(hello);
  EXPECT_EQ(Hear().size(), 0u);
  const MonotonicTime end = now_ + PendingConnections::kHelloTimeout;
  for (size_t i = 0; now_ < end; now_ += milliseconds(100), ++i) {
    EXPECT_EQ(pending_->next(), end);
    ASSERT_TRUE(Say(trickler, bytes.substr(i, 1)));
    EXPECT_EQ(Hear().size(), 0u);
    ASSERT_FALSE(IsClosed(trickler));
    ASSERT_FALSE(IsClosed(silent));
  }
  ASSERT_EQ(now_, end);
  EXPECT_EQ(Hear().size(), 0u);
  EXPECT_TRUE(IsDisconnected(trickler));
  EXPECT_TRUE(IsDisconnected(silent));
  EXPECT_EQ(Counted(), "exchange_timeout 2");
}

TEST_F(PendingConnectionsTest, WhatWasSaidInTimeIsHeardLate) {
  const Fd late = Dial();
  EXPECT_EQ(Hear().size(), 0u);
  ASSERT_TRUE(Say(late, BytesOf(Hello())));
  now_ += 2 * PendingConnections::kHelloTimeout;
  EXPECT_EQ(Hear().size(), 1u);
  EXPECT_EQ(Counted(), "");
}

TEST_F(PendingConnectionsTest, WhatIsNoHelloIsDisconnectedAtOnce) {
  Hello boast;
  boast.address_bytes = Hello::kMostAddressBytes + 1;
  for (const std::string& noise :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(8, '\0'), std::string(BytesOf(boast))}) {
    const Fd stranger = Dial();
    ASSERT_TRUE(Say(stranger, noise));
    EXPECT_EQ(Hear().size(), 0u);
    EXPECT_TRUE(IsDisconnected(stranger));
    EXPECT_EQ(Counted(), "exchange_malformed 1") << noise;
  }
  { const Fd leaves = Dial(); }
  {
    const Fd leaves = Dial();
    ASSERT_TRUE(Say(leaves, BytesOf(Hello()).substr(0, 383)));
  }
  EXPECT_EQ(Hear().size(), 0u);
  EXPECT_EQ(Counted(), "exchange_malformed 2");
  EXPECT_EQ(pending_->half_open(), 0u);
}

TEST_F(PendingConnectionsTest, APassTakesInSoManyAtTheMost) {
  std::vector<Fd> strangers;
  for (int i = 0; i < PendingConnections::kMaxPerPass + 10; ++i) strangers.push_back(Dial());
  pending_->Pass(now_);
  EXPECT_EQ(pending_->half_open(), static_cast<size_t>(PendingConnections::kMaxPerPass));
  pending_->Pass(now_);
  EXPECT_EQ(pending_->half_open(), strangers.size());
}

TEST_F(PendingConnectionsTest, WhoHasBeenThereLongestGoesWhenThereAreTooMany) {
  constexpr size_t kTooMany = 30;
  std::vector<Fd> strangers;
  for (size_t i = 0; i < PendingConnections::kMaxPending + kTooMany; ++i) {
    strangers.push_back(Dial());
    EXPECT_EQ(pending_->Pass(now_).size(), 0u);
    EXPECT_LE(pending_->half_open(), PendingConnections::kMaxPending);
  }
  EXPECT_EQ(Counted(), "exchange_overflow " + std::to_string(kTooMany));
  for (size_t i = 0; i < strangers.size(); ++i) {
    ASSERT_EQ(i < kTooMany ? IsDisconnected(strangers[i]) : IsClosed(strangers[i]), i < kTooMany)
        << i;
  }
  const Fd member = Dial();
  ASSERT_TRUE(Say(member, BytesOf(Hello())));
  EXPECT_EQ(Hear().size(), 1u) << "it is heard as it comes";
}

TEST_F(PendingConnectionsTest, WithoutADescriptorItRestsAndTriesAgain) {
  const Fd waits = Dial();
  ASSERT_TRUE(Say(waits, BytesOf(Hello())));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd next(dup(waits.get()));  // the lowest free number
  const rlimit none{static_cast<rlim_t>(next.get() + 1), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<ReceivedHello> heard = Hear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(heard.size(), 0u);
  EXPECT_EQ(pending_->next(), now_ + PendingConnections::kAcceptRetryDelay);
  pollfd listener{pending_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&listener, 1, 0), 0) << "who watches it would not rest";
  now_ += PendingConnections::kAcceptRetryDelay;
  EXPECT_EQ(Hear().size(), 1u);
  EXPECT_EQ(pending_->next(), std::nullopt);
}

}  // namespace
}  // namespace janus::dataplane
