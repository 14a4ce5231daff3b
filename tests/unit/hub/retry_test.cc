#include "hub/retry.h"

#include <gtest/gtest.h>

namespace janus::hub {
namespace {

constexpr RetryRule kRule{.attempts = 6,
                          .patience = Seconds(60),
                          .first_pause = Seconds(0.5),
                          .longest_pause = Seconds(4)};

TEST(Retry, PausesTwiceAsLongEachTimeUpToABound) {
  for (const auto& [attempts, pause] :
       std::vector<std::pair<int, double>>{{1, 0.5}, {2, 1}, {3, 2}, {4, 4}, {5, 4}}) {
    EXPECT_EQ(PauseBeforeRetry(kRule, attempts, Seconds(0), {}), Seconds(pause)) << attempts;
  }
}

TEST(Retry, GivesUpAfterSoManyAttemptsOrSoLongWithoutANewByte) {
  EXPECT_EQ(PauseBeforeRetry(kRule, 6, Seconds(0), {}), std::nullopt);
  EXPECT_EQ(PauseBeforeRetry(kRule, 1, Seconds(59.5), {}), Seconds(0.5));
  EXPECT_EQ(PauseBeforeRetry(kRule, 1, Seconds(59.6), {}), std::nullopt);
}

TEST(Retry, WaitsAsLongAsTheServerAsksIfThatIsWithinThePatience) {
  EXPECT_EQ(PauseBeforeRetry(kRule, 1, Seconds(0), Seconds(0)), Seconds(0));
  EXPECT_EQ(PauseBeforeRetry(kRule, 1, Seconds(0), Seconds(30)), Seconds(30));
  EXPECT_EQ(PauseBeforeRetry(kRule, 1, Seconds(31), Seconds(30)), std::nullopt);
  EXPECT_EQ(PauseBeforeRetry(kRule, 1, Seconds(0), Seconds(3600)), std::nullopt);
}

}  // namespace
}  // namespace janus::hub
