#include "dataplane/gateway/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/random.h"

namespace janus::gateway {
namespace {

TEST(StopMatcher, PassesEverythingWithoutStops) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Push("anything"), "anything");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, EndsBeforeAStopWithinOnePiece) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("do not stop here"), "do not ");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, KeepsTheStopWhenTold) {
  StopMatcher matcher({"stop"}, true);
  EXPECT_EQ(matcher.Push("go st"), "go ");
  EXPECT_EQ(matcher.Push("op now"), "stop");
  EXPECT_TRUE(matcher.matched());
}

TEST(StopMatcher, FindsAStopOverSeveralPieces) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("a s"), "a ");
  EXPECT_EQ(matcher.Push("t"), "");
  EXPECT_EQ(matcher.Push("o"), "");
  EXPECT_EQ(matcher.Push("pper"), "");
  EXPECT_TRUE(matcher.matched());
}

TEST(StopMatcher, ReleasesWhatTurnedOutToBeNoStop) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("sto"), "");
  EXPECT_EQ(matcher.Push("sto"), "sto");
  EXPECT_EQ(matcher.Push("ne"), "stone");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, FlushesWhatItHolds) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("a sto"), "a ");
  EXPECT_EQ(matcher.Flush(), "sto");
}

TEST(StopMatcher, TakesTheOneThatIsCompleteFirst) {
  StopMatcher matcher({"hello world", "lo wor", "o wor"});
  EXPECT_EQ(matcher.Push("hello world"), "hel");
}

TEST(StopMatcher, FindsAStopWhoseBeginningRepeats) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.Push("a"), "");
  EXPECT_EQ(matcher.Push("a"), "");
  EXPECT_EQ(matcher.Push("a"), "a");
  EXPECT_EQ(matcher.Push("b"), "");
  EXPECT_TRUE(matcher.matched());
}

// However the text is cut into pieces, the result is that of searching the whole text, and no byte
// is returned too early.
TEST(StopMatcher, AgreesWithSearchingTheWholeText) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 5000; ++round) {
    const auto word = [&](size_t longest) {
      std::string out;
      for (size_t n = 1 + random() % longest; n > 0; --n) out += "ab"[random() % 2];
      return out;
    };
    std::vector<std::string> stops;
    for (size_t n = 1 + random() % 4; n > 0; --n) stops.push_back(word(5));
    const std::string text = word(24);
    size_t first = std::string::npos;
    for (size_t end = 1; end <= text.size() && first == std::string::npos; ++end) {
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) {
          first = std::min(first, end - stop.size());
        }
      }
    }
    const std::string expected = text.substr(0, first);

    StopMatcher matcher(stops);
    std::string said;
    for (size_t at = 0; at < text.size() && !matcher.matched();) {
      const size_t n = std::min(text.size() - at, size_t{1} + random() % 4);
      said += matcher.Push(text.substr(at, n));
      at += n;
      ASSERT_TRUE(expected.starts_with(said)) << text << " said " << said;
    }
    said += matcher.Flush();
    ASSERT_EQ(matcher.matched(), first != std::string::npos);
    ASSERT_EQ(said, expected) << text;
  }
}

}  // namespace
}  // namespace janus::gateway
