#include "operator/kube/retry_after.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/rfc3339.h"

namespace janus::control {
namespace {

const WallTime kNow = *ParseTime("2026-11-22T11:30:00Z");

TEST(RetryAfter, IsANumberOfSeconds) {
  EXPECT_EQ(ParseRetryAfter("31", "", kNow), Seconds(31));
  EXPECT_EQ(ParseRetryAfter("0", "", kNow), Seconds(0));
}

TEST(RetryAfter, IsADateThatCountsFromTheRepliesOwn) {
  const std::string until = "Sun, 22 Nov 2026 11:30:45 GMT";
  EXPECT_EQ(ParseRetryAfter(until, "", kNow), Seconds(45));
  // The server's clock is an hour behind ours.
  EXPECT_EQ(ParseRetryAfter("Sun, 22 Nov 2026 10:30:45 GMT", "Sun, 22 Nov 2026 10:30:00 GMT", kNow),
            Seconds(45));
  EXPECT_EQ(ParseRetryAfter(until, "no date", kNow), Seconds(45));
  EXPECT_EQ(ParseRetryAfter("Fri, 01 Jan 2027 00:00:00 GMT", "Thu, 31 Dec 2026 23:59:00 GMT", kNow),
            Seconds(60));
}

TEST(RetryAfter, OfThePastAsksForNoWait) {
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", "", kNow), Seconds(0));
}

TEST(RetryAfter, IsNothingWhereItIsNeither) {
  for (const std::string text :
       {"", "-1", "+1", "1.5", "1s", " 1", "99999999999999999999", "soon",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 ovD 1994 08:49:37 GMT",
        "Sun, 31 Feb 2026 08:49:37 GMT", "Sun, 06 Nov 1994 25:49:37 GMT"}) {
    EXPECT_EQ(ParseRetryAfter(text, "", kNow), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace janus::control
