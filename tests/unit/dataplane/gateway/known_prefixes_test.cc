#include "dataplane/gateway/known_prefixes.h"

#include <gtest/gtest.h>

namespace janus::gateway {
namespace {

constexpr int kBlock = KnownPrefixes::kBlockTokens;

std::vector<int32_t> Tokens(int count, int32_t value = 1) {
  return std::vector<int32_t>(static_cast<size_t>(count), value);
}

TEST(KnownPrefixes, ABlockIsKnownByAllTokensBeforeItsEnd) {
  const std::vector<uint64_t> blocks = KnownPrefixes::BlocksOf(Tokens(3 * kBlock + 1));
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_NE(blocks[0], blocks[1]) << "equal tokens behind another beginning";
  std::vector<int32_t> other = Tokens(3 * kBlock);
  other[static_cast<size_t>(kBlock)] = 2;
  const std::vector<uint64_t> others = KnownPrefixes::BlocksOf(other);
  EXPECT_EQ(others[0], blocks[0]);
  EXPECT_NE(others[1], blocks[1]);
  EXPECT_NE(others[2], blocks[2]) << "equal tokens behind another beginning";
}

TEST(KnownPrefixes, TellsHowMuchOfAPromptAnInstanceWasSent) {
  KnownPrefixes known(100);
  known.Note(1, KnownPrefixes::BlocksOf(Tokens(2 * kBlock)));
  const std::vector<uint64_t> longer = KnownPrefixes::BlocksOf(Tokens(5 * kBlock));
  EXPECT_EQ(known.TokensAt(1, longer), 2 * kBlock);
  EXPECT_EQ(known.TokensAt(2, longer), 0);
  EXPECT_EQ(known.TokensAt(1, KnownPrefixes::BlocksOf(Tokens(kBlock - 1))), 0);
}

TEST(KnownPrefixes, ForgetsTheLeastRecentlyUsedBlocksAndOfAPromptTheLastFirst) {
  KnownPrefixes known(4);
  const auto first = KnownPrefixes::BlocksOf(Tokens(2 * kBlock, 1));
  const auto second = KnownPrefixes::BlocksOf(Tokens(2 * kBlock, 2));
  const auto third = KnownPrefixes::BlocksOf(Tokens(kBlock, 3));
  known.Note(1, first);
  known.Note(1, second);
  known.Note(1, first);  // used again
  known.Note(1, third);
  EXPECT_EQ(known.size(), 4u);
  EXPECT_EQ(known.TokensAt(1, first), 2 * kBlock);
  EXPECT_EQ(known.TokensAt(1, second), kBlock);
  EXPECT_EQ(known.TokensAt(1, third), kBlock);
}

}  // namespace
}  // namespace janus::gateway
