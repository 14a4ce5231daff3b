#include "dataplane/comm/handshake/exchange_listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/contains.h"
#include "tests/support/raw_caller.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
constexpr PeerId kExperts1{Role::kExperts, Rank{1}};

TransportLayout LayoutOf(PeerId self) {
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = 1;
  shape.n = 2;
  return LayoutFor(ExchangeMode::kDirect, shape, self);
}

ExchangeIdentity Identity(uint64_t epoch, uint8_t key) {
  ExchangeIdentity identity;
  identity.epoch = epoch;
  identity.epoch_key.fill(std::byte{key});
  identity.model_digest = 0x123;
  identity.topology_hash = 0x456;
  identity.numerics = "test";
  return identity;
}

Hello HelloOf(const ExchangeIdentity& identity, PeerId self = kExperts0) {
  return MakeHello(identity, LayoutOf(self), PairTransport::kSharedMemory, 0);
}

// The listener of attention 0 in 1A2E.
class ExchangeListenerTest : public testing::Test {
 protected:
  std::shared_ptr<ExpectedEpoch> Expect(uint64_t epoch, uint8_t key) {
    return *listener_->Expect(Identity(epoch, key), LayoutOf(kAttention0));
  }
  // Expects, connects and commits an epoch.
  void Serve(uint64_t epoch, uint8_t key) {
    const std::shared_ptr<ExpectedEpoch> served = Expect(epoch, key);
    served->Close();
    listener_->Serve(served);
  }
  // The reason for which a stranger with this HELLO is refused; empty: the connection is closed
  // without an answer.
  std::string Said(const Hello& hello) {
    const Fd stranger = DialExchange(listener_->address());
    EXPECT_TRUE(Say(stranger, BytesOf(hello)));
    const std::optional<Hello> answer = Answer(stranger);
    if (!answer) return "";
    EXPECT_TRUE(IsDisconnected(stranger));
    return RefusalText(*answer);
  }
  // Waits until so many are counted. The listener counts before it answers, but it may count a
  // silently closed connection after closing it.
  void ExpectCounted(ExchangeRefusal refusal, uint64_t times) {
    const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
    while (counts_.of(refusal) < times && MonotonicClock::now() < end) std::this_thread::yield();
    EXPECT_EQ(counts_.of(refusal), times) << ToString(refusal);
  }
  uint64_t counted() const {
    uint64_t all = 0;
    for (const ExchangeRefusal refusal : kExchangeRefusals) all += counts_.of(refusal);
    return all;
  }
  // Waits for HELLOs of an epoch, 20 s at most.
  static std::vector<ReceivedHello> Await(ExpectedEpoch& epoch) {
    pollfd waiting{epoch.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, ScaledForPoll(std::chrono::seconds(20))), 1);
    return epoch.Take();
  }

  const TempFolder folder_;
  MetricRegistry registry_;
  ExchangeRefusalCounts counts_{registry_};
  const std::unique_ptr<ExchangeListener> listener_ =
      *ExchangeListener::Create("unix:" + folder_.path() + "/listener", &counts_);
};

TEST_F(ExchangeListenerTest, AMemberOfAnEpochThatIsExpectedWaitsForItsHandshake) {
  const std::shared_ptr<ExpectedEpoch> epoch = Expect(3, 1);
  const Fd member = DialExchange(listener_->address());
  ASSERT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 1)))));
  const std::vector<ReceivedHello> pending = Await(*epoch);
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(SenderOf(pending[0].hello), kExperts0);
  EXPECT_FALSE(IsClosed(member));
  EXPECT_EQ(Expect(3, 1), epoch) << "the handshake finds it";
  EXPECT_EQ(counted(), 0u);
}

TEST_F(ExchangeListenerTest, OfAMemberThatCallsAgainTheLastCallCounts) {
  const std::shared_ptr<ExpectedEpoch> epoch = Expect(3, 1);
  std::vector<Fd> calls;
  Hello hello = HelloOf(Identity(3, 1));
  for (uint64_t i = 0; i < 10; ++i) {
    calls.push_back(DialExchange(listener_->address()));
    hello.model_digest = i;
    ASSERT_TRUE(Say(calls.back(), BytesOf(hello)));
  }
  for (size_t i = 0; i + 1 < calls.size(); ++i) EXPECT_TRUE(IsDisconnected(calls[i])) << i;
  const std::vector<ReceivedHello> pending = Await(*epoch);
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].hello.model_digest, 9u);
}

TEST_F(ExchangeListenerTest, AtRestAnOldEpochIsRefusedByNameAndCounted) {
  Serve(1, 1);
  Serve(2, 2);
  EXPECT_EQ(Said(HelloOf(Identity(1, 1))), "exchange: experts 0 has epoch 1, attention 0 has 2");
  ExpectCounted(ExchangeRefusal::kEpoch, 1);
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeListenerTest, AtRestAStaleKeyIsRefusedByNameAndCounted) {
  Serve(1, 1);
  Serve(2, 2);
  EXPECT_EQ(Said(HelloOf(Identity(2, 1))),
            "exchange: experts 0 has another epoch key than attention 0");
  ExpectCounted(ExchangeRefusal::kKey, 1);
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeListenerTest, AtRestWhoIsNoMemberOrOneThatIsHereIsRefusedAndCounted) {
  Serve(2, 2);
  Hello beyond = HelloOf(Identity(2, 2));
  beyond.rank = 9;
  EXPECT_EQ(Said(beyond), "exchange: experts 9 is not in the topology of attention 0");
  ExpectCounted(ExchangeRefusal::kMember, 1);
  EXPECT_EQ(Said(HelloOf(Identity(2, 2))), "") << "as a replay would";
  ExpectCounted(ExchangeRefusal::kMember, 2);
  EXPECT_EQ(counted(), 2u);
}

TEST_F(ExchangeListenerTest, AnotherVersionIsRefusedByNameAndCounted) {
  Serve(2, 2);
  Hello other = HelloOf(Identity(9, 2));
  other.protocol_version = 99;
  EXPECT_TRUE(Contains(Said(other), "protocol version 99"));
  ExpectCounted(ExchangeRefusal::kMalformed, 1);
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeListenerTest, ANewerEpochThanAnyIsToTryAgain) {
  EXPECT_EQ(Said(HelloOf(Identity(1, 1))), "") << "none is known";
  Serve(2, 2);
  EXPECT_EQ(Said(HelloOf(Identity(3, 3))), "");
  const std::shared_ptr<ExpectedEpoch> next = Expect(3, 3);
  const Fd member = DialExchange(listener_->address());
  ASSERT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 3)))));
  EXPECT_EQ(Await(*next).size(), 1u);
  EXPECT_EQ(counted(), 0u);
}

TEST_F(ExchangeListenerTest, WhileAnEpochIsAwaitedAllOthersAreRefusedAndItsHandshakeHearsWhy) {
  Serve(2, 2);
  const std::shared_ptr<ExpectedEpoch> next = Expect(4, 4);
  // An epoch that was never served here is over too.
  for (const ExchangeIdentity& stale : {Identity(1, 1), Identity(3, 3), Identity(4, 2)}) {
    const std::string why = Said(HelloOf(stale));
    EXPECT_NE(why, "");
    EXPECT_EQ(next->last_refusal(), why);
  }
  ExpectCounted(ExchangeRefusal::kEpoch, 2);
  ExpectCounted(ExchangeRefusal::kKey, 1);
  EXPECT_EQ(Said(HelloOf(Identity(2, 2))), "") << "of the epoch that is served";
  ExpectCounted(ExchangeRefusal::kMember, 1);
  EXPECT_EQ(next->Take().size(), 0u);
  EXPECT_EQ(counted(), 4u);
}

TEST_F(ExchangeListenerTest, ExpertsAreNotMetByExperts) {
  const std::shared_ptr<ExpectedEpoch> epoch =
      *listener_->Expect(Identity(3, 1), LayoutOf(kExperts0));
  EXPECT_EQ(Said(HelloOf(Identity(3, 1), kExperts1)), "");
  EXPECT_EQ(Said(HelloOf(Identity(3, 1), kAttention0)), "") << "it is dialled, and does not dial";
  ExpectCounted(ExchangeRefusal::kMember, 2);
  EXPECT_EQ(epoch->Take().size(), 0u);
}

// Its number may be reused, with another key.
TEST_F(ExchangeListenerTest, AnEpochThatWasGivenUpIsForgotten) {
  Serve(2, 2);
  const Fd member = DialExchange(listener_->address());
  {
    const std::shared_ptr<ExpectedEpoch> given_up = Expect(3, 3);
    ASSERT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 3)))));
    pollfd waiting{given_up->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, ScaledForPoll(std::chrono::seconds(20))), 1);
  }
  EXPECT_TRUE(IsDisconnected(member)) << "it dials again";
  EXPECT_EQ(Said(HelloOf(Identity(3, 4))), "");
  const std::shared_ptr<ExpectedEpoch> again = Expect(3, 4);
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(3, 3))), "another epoch key"));
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeListenerTest, WhatWasCommittedLastStaysKnown) {
  Serve(2, 2);
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(2, 1))), "another epoch key"))
      << "though nobody holds it";
  ExpectCounted(ExchangeRefusal::kKey, 1);
}

// The content of a refusal does not suffice to send the HELLO of a member.
TEST_F(ExchangeListenerTest, ARefusalTellsNothingThatAMemberMustKnow) {
  Serve(2, 2);
  const Fd stranger = DialExchange(listener_->address());
  ASSERT_TRUE(Say(stranger, BytesOf(HelloOf(Identity(2, 1)))));
  const std::optional<Hello> answer = Answer(stranger);
  ASSERT_TRUE(answer);
  EXPECT_EQ(SenderOf(*answer), kAttention0);
  EXPECT_EQ(answer->key_check, 0u);
  EXPECT_EQ(answer->model_digest, 0u);
  EXPECT_EQ(answer->topology_hash, 0u);
  EXPECT_EQ(answer->layout_hash, 0u);
  EXPECT_EQ(std::string(answer->numerics), "");
}

TEST_F(ExchangeListenerTest, NoiseIsCountedWithoutAnyEpoch) {
  const Fd stranger = DialExchange(listener_->address());
  ASSERT_TRUE(Say(stranger, "GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(IsDisconnected(stranger));
  ExpectCounted(ExchangeRefusal::kMalformed, 1);
}

TEST_F(ExchangeListenerTest, OpensElsewhereAndKeepsWhatItKnows) {
  Serve(2, 2);
  const std::string before = listener_->address();
  ASSERT_EQ(listener_->Listen(before), OkStatus());
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(1, 1))), "epoch 1"));
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0"), OkStatus());
  EXPECT_NE(access(before.substr(5).c_str(), F_OK), 0) << "the one before is closed";
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(1, 1))), "epoch 1"));
  EXPECT_EQ(listener_->Listen("tcp:nowhere:0").code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0"), OkStatus());
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(1, 1))), "epoch 1"));
  ExpectCounted(ExchangeRefusal::kEpoch, 3);
}

TEST_F(ExchangeListenerTest, ListensAtBothOfTwoAddresses) {
  const std::string file = "unix:" + folder_.path() + "/both";
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0," + file), OkStatus());
  const std::shared_ptr<ExpectedEpoch> epoch = Expect(3, 1);
  const ExchangeAddresses bound = *ParseExchangeAddresses(listener_->address());
  EXPECT_EQ(bound.memory, file);
  EXPECT_NE(bound.network, "tcp:127.0.0.1:0") << "the port is known";
  const auto came_over = [&](const std::string& address) {
    const Fd member = DialExchange(address);
    EXPECT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 1)))));
    const std::vector<ReceivedHello> pending = Await(*epoch);
    return pending.size() != 1 ? "none" : pending[0].is_local ? "unix" : "tcp";
  };
  EXPECT_EQ(came_over(bound.memory), std::string("unix"));
  EXPECT_EQ(came_over(bound.network), std::string("tcp"));
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0"), OkStatus());
  EXPECT_NE(access(file.substr(5).c_str(), F_OK), 0) << "both are closed";
}

TEST_F(ExchangeListenerTest, StrangersAtOneAddressDoNotUseUpTheRoomOfTheOther) {
  const std::string file = "unix:" + folder_.path() + "/both";
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0," + file), OkStatus());
  const std::shared_ptr<ExpectedEpoch> epoch = Expect(3, 1);
  const ExchangeAddresses bound = *ParseExchangeAddresses(listener_->address());
  const Fd member = DialExchange(bound.memory);
  const Hello whole = HelloOf(Identity(3, 1));
  ASSERT_TRUE(Say(member, BytesOf(whole).substr(0, 100)));
  std::vector<Fd> strangers;
  while (strangers.size() < PendingConnections::kMaxPending + 10) {
    strangers.push_back(DialExchange(bound.network));
  }
  ExpectCounted(ExchangeRefusal::kOverflow, 10);
  ASSERT_TRUE(Say(member, BytesOf(whole).substr(100)));
  EXPECT_EQ(Await(*epoch).size(), 1u);
}

// A process that was killed leaves the file of its socket behind.
TEST_F(ExchangeListenerTest, TheSocketFileOfADeadProcessDoesNotPreventListening) {
  const std::string path = folder_.path() + "/both";
  {
    const ExchangeAddress address = *ParseExchangeAddress("unix:" + path);
    const Fd dead(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(dead.get(), address.get(), address.bytes), 0);
  }
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0,unix:" + path), OkStatus());
  Serve(2, 2);
  const Fd stranger = DialExchange("unix:" + path);
  ASSERT_TRUE(Say(stranger, BytesOf(HelloOf(Identity(1, 1)))));
  EXPECT_TRUE(Answer(stranger));
}

}  // namespace
}  // namespace janus::dataplane
