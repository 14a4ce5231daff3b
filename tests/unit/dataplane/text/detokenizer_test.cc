#include "dataplane/text/detokenizer.h"

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace janus::text {
namespace {

using Texts = std::vector<std::string>;

// One piece per token, then the flush.
Texts Pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
             bool skip_special = true) {
  Detokenizer detokenizer = Detokenizer::Create(tokenizer, skip_special).value();
  Texts pieces;
  for (const int32_t id : ids) {
    pieces.push_back(detokenizer.Push(std::span(&id, 1)).value());
  }
  pieces.push_back(detokenizer.Flush().value());
  return pieces;
}

TEST(Detokenizer, GivesWholeTokensAtOnce) {
  EXPECT_EQ(Pieces(*SmallTokenizer(), {0, 1, 9}), (Texts{"a", " b", "\u20ac", ""}));
}

TEST(Detokenizer, HoldsACharacterOfSeveralTokensBack) {
  EXPECT_EQ(Pieces(*SmallTokenizer(), {0, 5, 6, 7, 8, 0}),
            (Texts{"a", "", "", "", "\U0001F600", "a", ""}));
}

TEST(Detokenizer, GivesTheWholePartOfATokenThatEndsInMidCharacter) {
  EXPECT_EQ(Pieces(*SmallTokenizer(), {2, 4, 4, 3}), (Texts{"", "\u00e9", "\u00e9", "\u00e9", ""}));
}

TEST(Detokenizer, RunsForEverThroughTokensThatAllEndInMidCharacter) {
  const auto tokenizer = SmallTokenizer();
  Detokenizer detokenizer = Detokenizer::Create(*tokenizer, true).value();
  const int32_t first = 2, next = 4;
  EXPECT_EQ(detokenizer.Push(std::span(&first, 1)).value(), "");
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(detokenizer.Push(std::span(&next, 1)).value(), "\u00e9") << i;
  }
  EXPECT_EQ(detokenizer.Flush().value(), "\uFFFD");
}

TEST(Detokenizer, FlushesAnIncompleteCharacterAsReplacement) {
  EXPECT_EQ(Pieces(*SmallTokenizer(), {0, 5, 6}), (Texts{"a", "", "", "\uFFFD"}));
}

TEST(Detokenizer, ShowsABrokenCharacterOnceTheNextTokenSettlesIt) {
  EXPECT_EQ(Pieces(*SmallTokenizer(), {5, 0}), (Texts{"", "\uFFFDa", ""}));
}

TEST(Detokenizer, KeepsUpWithEndlessBrokenBytes) {
  const auto tokenizer = SmallTokenizer();
  Detokenizer detokenizer = Detokenizer::Create(*tokenizer, true).value();
  const int32_t broken = 8;
  size_t bytes = 0;
  for (int i = 0; i < 1000; ++i) {
    bytes += detokenizer.Push(std::span(&broken, 1)).value().size();
    ASSERT_GE(bytes + 3 * 3, 3u * (i + 1)) << "more than three characters are held back";
  }
  EXPECT_EQ(bytes + detokenizer.Flush().value().size(), 3000u);
}

TEST(Detokenizer, SkipsSpecialTokensWithoutLosingTheContext) {
  const auto tokenizer = ByteFallbackTokenizer();
  EXPECT_EQ(Pieces(*tokenizer, {256, 259, 256}), (Texts{"a", "", " a", ""}));
  EXPECT_EQ(Pieces(*tokenizer, {256, 259, 258}, false), (Texts{"a", "</s>", "b", ""}));
}

TEST(Detokenizer, JoinsByteTokensAlsoRightAfterOthers) {
  const auto tokenizer = ByteFallbackTokenizer();
  EXPECT_EQ(Pieces(*tokenizer, {0xf0, 0x9f, 0x98, 0x80, 0xf0, 0x9f, 0x98, 0x80, 0xc3, 0xa9, 256}),
            (Texts{"", "", "", "\U0001F600", "", "", "", "\U0001F600", "", "\u00e9", " a", ""}));
}

TEST(Detokenizer, GivesUpByteTokensThatBecomeNoCharacter) {
  const auto tokenizer = ByteFallbackTokenizer();
  std::string text;
  for (const std::string& piece :
       Pieces(*tokenizer, {258, 0xc3, 0xa9, 0xff, 0xff, 0xff, 0xff, 258}))
    text += piece;
  EXPECT_EQ(text, "b\u00e9\uFFFD\uFFFD\uFFFD\uFFFDb");
}

TEST(Detokenizer, IgnoresIdsWithoutAToken) {
  EXPECT_EQ(Pieces(*SmallTokenizer(), {0, 500, -1, 1}), (Texts{"a", "", "", " b", ""}));
}

TEST(Detokenizer, BeginsAnewAfterAFlush) {
  const auto tokenizer = ByteFallbackTokenizer();
  Detokenizer detokenizer = Detokenizer::Create(*tokenizer, true).value();
  const int32_t id = 256;  // its blank is stripped only at the beginning of a text
  EXPECT_EQ(detokenizer.Push(std::span(&id, 1)).value(), "a");
  EXPECT_EQ(detokenizer.Push(std::span(&id, 1)).value(), " a");
  EXPECT_EQ(detokenizer.Flush().value(), "");
  EXPECT_EQ(detokenizer.Push(std::span(&id, 1)).value(), "a");
}

TEST(Detokenizer, OutlivesItsTokenizer) {
  auto tokenizer = SmallTokenizer();
  Detokenizer detokenizer = Detokenizer::Create(*tokenizer, true).value();
  tokenizer.reset();
  const int32_t id = 0;
  EXPECT_EQ(detokenizer.Push(std::span(&id, 1)).value(), "a");
}

}  // namespace
}  // namespace janus::text
