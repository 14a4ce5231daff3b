#include "dataplane/comm/handshake/exchange_door.h"

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
  return *LayoutFor(ExchangeMode::kDirect, shape, self);
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

// The door of attention 0 in 1A2E.
class ExchangeDoorTest : public testing::Test {
 protected:
  std::shared_ptr<EpochAtDoor> Expect(uint64_t epoch, uint8_t key) {
    return *door_->Expect(Identity(epoch, key), LayoutOf(kAttention0));
  }
  // Expected, met and committed.
  void Serve(uint64_t epoch, uint8_t key) {
    const std::shared_ptr<EpochAtDoor> served = Expect(epoch, key);
    served->Close();
    door_->Serve(served);
  }
  // Why somebody is refused who says this; empty: the connection is closed without a word.
  std::string Said(const Hello& hello) {
    const Fd stranger = DialExchange(door_->address());
    EXPECT_TRUE(Say(stranger, BytesOf(hello)));
    const std::optional<Hello> answer = Answer(stranger);
    if (!answer) return "";
    EXPECT_TRUE(IsShownTheDoor(stranger));
    return RefusalText(*answer);
  }
  // The door counts before it answers, but a connection that it closes without a word it may count
  // after: waits for so many.
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
  // Waits for callers of an epoch, 20 s at most.
  static std::vector<Caller> Await(EpochAtDoor& epoch) {
    pollfd waiting{epoch.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, ScaledForPoll(std::chrono::seconds(20))), 1);
    return epoch.Take();
  }

  const TempFolder folder_;
  MetricRegistry registry_;
  ExchangeRefusalCounts counts_{registry_};
  const std::unique_ptr<ExchangeDoor> door_ =
      *ExchangeDoor::Create("unix:" + folder_.path() + "/door", &counts_);
};

TEST_F(ExchangeDoorTest, AMemberOfAnEpochThatIsExpectedWaitsForItsMeeting) {
  const std::shared_ptr<EpochAtDoor> epoch = Expect(3, 1);
  const Fd member = DialExchange(door_->address());
  ASSERT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 1)))));
  const std::vector<Caller> callers = Await(*epoch);
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_EQ(SenderOf(callers[0].hello), kExperts0);
  EXPECT_FALSE(IsClosed(member));
  EXPECT_EQ(Expect(3, 1), epoch) << "the meeting finds it";
  EXPECT_EQ(counted(), 0u);
}

TEST_F(ExchangeDoorTest, OfAMemberThatCallsAgainTheLastCallCounts) {
  const std::shared_ptr<EpochAtDoor> epoch = Expect(3, 1);
  std::vector<Fd> calls;
  Hello hello = HelloOf(Identity(3, 1));
  for (uint64_t i = 0; i < 10; ++i) {
    calls.push_back(DialExchange(door_->address()));
    hello.model_digest = i;
    ASSERT_TRUE(Say(calls.back(), BytesOf(hello)));
  }
  for (size_t i = 0; i + 1 < calls.size(); ++i) EXPECT_TRUE(IsShownTheDoor(calls[i])) << i;
  const std::vector<Caller> callers = Await(*epoch);
  ASSERT_EQ(callers.size(), 1u);
  EXPECT_EQ(callers[0].hello.model_digest, 9u);
}

TEST_F(ExchangeDoorTest, AtRestAnOldEpochIsRefusedByNameAndCounted) {
  Serve(1, 1);
  Serve(2, 2);
  EXPECT_EQ(Said(HelloOf(Identity(1, 1))), "exchange: experts 0 has epoch 1, attention 0 has 2");
  ExpectCounted(ExchangeRefusal::kEpoch, 1);
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeDoorTest, AtRestAStaleKeyIsRefusedByNameAndCounted) {
  Serve(1, 1);
  Serve(2, 2);
  EXPECT_EQ(Said(HelloOf(Identity(2, 1))),
            "exchange: experts 0 has another epoch key than attention 0");
  ExpectCounted(ExchangeRefusal::kKey, 1);
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeDoorTest, AtRestWhoIsNoMemberOrOneThatIsHereIsRefusedAndCounted) {
  Serve(2, 2);
  Hello beyond = HelloOf(Identity(2, 2));
  beyond.rank = 9;
  EXPECT_EQ(Said(beyond), "exchange: experts 9 is not in the topology of attention 0");
  ExpectCounted(ExchangeRefusal::kMember, 1);
  EXPECT_EQ(Said(HelloOf(Identity(2, 2))), "") << "as a replay would";
  ExpectCounted(ExchangeRefusal::kMember, 2);
  EXPECT_EQ(counted(), 2u);
}

TEST_F(ExchangeDoorTest, AnotherVersionIsRefusedByNameAndCounted) {
  Serve(2, 2);
  Hello other = HelloOf(Identity(9, 2));
  other.protocol_version = 99;
  EXPECT_TRUE(Contains(Said(other), "protocol version 99"));
  ExpectCounted(ExchangeRefusal::kMalformed, 1);
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeDoorTest, ANewerEpochThanAnyIsToTryAgain) {
  EXPECT_EQ(Said(HelloOf(Identity(1, 1))), "") << "none is known";
  Serve(2, 2);
  EXPECT_EQ(Said(HelloOf(Identity(3, 3))), "");
  const std::shared_ptr<EpochAtDoor> next = Expect(3, 3);
  const Fd member = DialExchange(door_->address());
  ASSERT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 3)))));
  EXPECT_EQ(Await(*next).size(), 1u);
  EXPECT_EQ(counted(), 0u);
}

TEST_F(ExchangeDoorTest, WhileAnEpochIsAwaitedAllOthersAreRefusedAndItsMeetingHearsWhy) {
  Serve(2, 2);
  const std::shared_ptr<EpochAtDoor> next = Expect(4, 4);
  // One that was never served here is over too.
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

TEST_F(ExchangeDoorTest, ExpertsAreNotMetByExperts) {
  const std::shared_ptr<EpochAtDoor> epoch = *door_->Expect(Identity(3, 1), LayoutOf(kExperts0));
  EXPECT_EQ(Said(HelloOf(Identity(3, 1), kExperts1)), "");
  EXPECT_EQ(Said(HelloOf(Identity(3, 1), kAttention0)), "") << "it is dialled, and does not dial";
  ExpectCounted(ExchangeRefusal::kMember, 2);
  EXPECT_EQ(epoch->Take().size(), 0u);
}

// Its number may come again, with another key.
TEST_F(ExchangeDoorTest, AnEpochThatWasGivenUpIsForgotten) {
  Serve(2, 2);
  const Fd member = DialExchange(door_->address());
  {
    const std::shared_ptr<EpochAtDoor> given_up = Expect(3, 3);
    ASSERT_TRUE(Say(member, BytesOf(HelloOf(Identity(3, 3)))));
    pollfd waiting{given_up->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, ScaledForPoll(std::chrono::seconds(20))), 1);
  }
  EXPECT_TRUE(IsShownTheDoor(member)) << "it dials again";
  EXPECT_EQ(Said(HelloOf(Identity(3, 4))), "");
  const std::shared_ptr<EpochAtDoor> again = Expect(3, 4);
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(3, 3))), "another epoch key"));
  EXPECT_EQ(counted(), 1u);
}

TEST_F(ExchangeDoorTest, WhatWasCommittedLastStaysKnown) {
  Serve(2, 2);
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(2, 1))), "another epoch key"))
      << "though nobody holds it";
  ExpectCounted(ExchangeRefusal::kKey, 1);
}

// With what an answer tells nobody may say HELLO as a member.
TEST_F(ExchangeDoorTest, ARefusalTellsNothingThatAMemberMustKnow) {
  Serve(2, 2);
  const Fd stranger = DialExchange(door_->address());
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

TEST_F(ExchangeDoorTest, NoiseIsCountedWithoutAnyEpoch) {
  const Fd stranger = DialExchange(door_->address());
  ASSERT_TRUE(Say(stranger, "GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(IsShownTheDoor(stranger));
  ExpectCounted(ExchangeRefusal::kMalformed, 1);
}

TEST_F(ExchangeDoorTest, OpensElsewhereAndKeepsWhatItKnows) {
  Serve(2, 2);
  const std::string before = door_->address();
  ASSERT_EQ(door_->Listen(before), OkStatus());
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(1, 1))), "epoch 1"));
  ASSERT_EQ(door_->Listen("tcp:127.0.0.1:0"), OkStatus());
  EXPECT_NE(access(before.substr(5).c_str(), F_OK), 0) << "the one before is closed";
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(1, 1))), "epoch 1"));
  EXPECT_EQ(door_->Listen("tcp:nowhere:0").code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(door_->Listen("tcp:127.0.0.1:0"), OkStatus());
  EXPECT_TRUE(Contains(Said(HelloOf(Identity(1, 1))), "epoch 1"));
  ExpectCounted(ExchangeRefusal::kEpoch, 3);
}

}  // namespace
}  // namespace janus::dataplane
