#include "dataplane/comm/wire/wire.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace janus::dataplane {
namespace {

// The published vector of SipHash-2-4 for the key 00..0f and the message 00..07.
TEST(EpochTag, IsSipHashOfTheEpoch) {
  EpochKey key;
  for (int i = 0; i < 16; ++i) key[static_cast<size_t>(i)] = static_cast<std::byte>(i);
  EXPECT_EQ(EpochTag(key, 0x0706050403020100ULL), 0x93f5f5799a932462ULL);
}

TEST(EpochTag, DependsOnEveryBitOfKeyAndEpoch) {
  const EpochKey key{};
  const uint64_t tag = EpochTag(key, 5);
  for (int bit = 0; bit < 64; ++bit) EXPECT_NE(EpochTag(key, 5 ^ (uint64_t{1} << bit)), tag) << bit;
  for (int bit = 0; bit < 128; ++bit) {
    EpochKey other{};
    other[static_cast<size_t>(bit / 8)] = static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(EpochTag(other, 5), tag) << bit;
  }
}

TEST(EpochKeyCheck, IsAnotherWordThanTheTagUnderTheSameKey) {
  EpochKey key;
  for (int i = 0; i < 16; ++i) key[static_cast<size_t>(i)] = static_cast<std::byte>(i);
  EXPECT_NE(EpochKeyCheck(key, 5), EpochTag(key, 5));
  EXPECT_NE(EpochKeyCheck(key, 5), EpochKeyCheck(key, 6));
  EXPECT_NE(EpochKeyCheck(key, 5), EpochKeyCheck(EpochKey{}, 5));
}

TEST(RoundKey, OrdersByStepThenLayerThenMicroBatch) {
  RoundKey early, late;
  early.epoch = late.epoch = 1;
  early.step = 3;
  late.step = 4;
  early.layer = 9;
  EXPECT_LT(early, late);
  late.step = 3;
  EXPECT_GT(early, late);
  late.layer = 9;
  late.micro_batch = 1;
  EXPECT_LT(early, late);
}

TEST(Header, CarriesTheWholeRoundKey) {
  RoundKey key{7, 1234567890123, 3, 2, 41, 1};
  const Header header = MakeHeader(MessageKind::kRows, key, 5, 6);
  EXPECT_EQ(header.key(), key);
  EXPECT_EQ(header.sender, 5);
  EXPECT_EQ(header.count, 6u);
}

TEST(TicketShares, AreTakenAsTheyWereWritten) {
  const std::vector<TicketShare> sent = {{4, 2}, {0, 0}};
  std::vector<TicketShare> shares;
  const Status read = ReadTicketShares(std::as_bytes(std::span(sent)), 2, 4, shares);
  ASSERT_TRUE(read.ok()) << read.ToString();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].row_limit, 4);
  EXPECT_EQ(shares[0].prefill_budget, 2);
  EXPECT_EQ(shares[1].row_limit, 0);
}

TEST(TicketShares, OfAnotherSizeOrBeyondARoundAreNamed) {
  std::vector<TicketShare> shares;
  const auto refusal = [&](const std::vector<TicketShare>& sent) {
    return ReadTicketShares(std::as_bytes(std::span(sent)), 2, 4, shares).message();
  };
  EXPECT_EQ(refusal({}), "a ticket of 0 bytes for 2 attention instances");
  EXPECT_EQ(refusal({{4, 2}}), "a ticket of 4 bytes for 2 attention instances");
  EXPECT_EQ(refusal({{0, 0}, {5, 0}}),
            "a ticket with 5 rows and 0 prompt positions for attention 1; a round carries 4 rows");
  EXPECT_EQ(refusal({{2, 3}, {0, 0}}),
            "a ticket with 2 rows and 3 prompt positions for attention 0; a round carries 4 rows");
}

}  // namespace
}  // namespace janus::dataplane
