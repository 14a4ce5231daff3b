#include "operator/kube/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "operator/kube/rate_limit.h"
#include "tests/support/fake_clock.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

ApiError Failed(StatusCode code, int http, bool outcome_unknown) {
  ApiError error;
  error.code = code;
  error.http_status = http;
  error.outcome_unknown = outcome_unknown;
  return error;
}

const ApiError kReset = Failed(StatusCode::kUnavailable, 0, true);
const ApiError kNotConnected = Failed(StatusCode::kUnavailable, 0, false);
const ApiError kServerError = Failed(StatusCode::kUnavailable, 500, true);
const ApiError kTooMany = Failed(StatusCode::kResourceExhausted, 429, false);

bool IsRetried(const ApiError& error, Repeat repeat, int attempt = 1) {
  std::minstd_rand random(1);
  return PauseBeforeRetry(RetryPolicy(), attempt, error, repeat, random).has_value();
}

TEST(Retry, AWriteWhoseOutcomeIsUnknownIsNotDoneAgain) {
  EXPECT_TRUE(IsRetried(kReset, Repeat::kHarmless));
  EXPECT_FALSE(IsRetried(kReset, Repeat::kHarmful));
  EXPECT_TRUE(IsRetried(kServerError, Repeat::kHarmless));
  EXPECT_FALSE(IsRetried(kServerError, Repeat::kHarmful));
}

TEST(Retry, WhatWasRefusedOrNeverLeftIsDoneAgain) {
  for (const Repeat repeat : {Repeat::kHarmless, Repeat::kHarmful}) {
    EXPECT_TRUE(IsRetried(kTooMany, repeat));
    EXPECT_TRUE(IsRetried(kNotConnected, repeat));
  }
}

TEST(Retry, WhatCannotHealIsNotTriedAgain) {
  for (const StatusCode code :
       {StatusCode::kNotFound, StatusCode::kAborted, StatusCode::kInvalidArgument,
        StatusCode::kOutOfRange, StatusCode::kCancelled, StatusCode::kDeadlineExceeded}) {
    EXPECT_FALSE(IsRetried(Failed(code, 0, false), Repeat::kHarmless)) << ToString(code);
  }
  // Our own limits: the caller must wait for its running calls.
  EXPECT_FALSE(IsRetried(Failed(StatusCode::kResourceExhausted, 0, false), Repeat::kHarmless));
}

TEST(Retry, AttemptsAreCounted) {
  EXPECT_TRUE(IsRetried(kReset, Repeat::kHarmless, 4));
  EXPECT_FALSE(IsRetried(kReset, Repeat::kHarmless, 5));
}

TEST(Retry, PausesDoubleUpToABoundAndAreDrawn) {
  std::minstd_rand random(TestSeed());
  RetryPolicy policy;
  policy.max_attempts = 1000;
  double most = 0;
  double least = 1e9;
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const Seconds full = std::min(Seconds(10), Seconds(0.25) * std::exp2(attempt - 1));
    const Seconds pause = *PauseBeforeRetry(policy, attempt, kReset, Repeat::kHarmless, random);
    EXPECT_LE(pause, full);
    EXPECT_GE(pause, full / 2);
    most = std::max(most, pause / full);
    least = std::min(least, pause / full);
  }
  EXPECT_GT(most, 0.9);
  EXPECT_LT(least, 0.6);
}

TEST(Retry, TheServersPauseGoesBeforeAShorterOne) {
  std::minstd_rand random(1);
  ApiError error = kTooMany;
  error.retry_after = Seconds(42);
  EXPECT_EQ(PauseBeforeRetry(RetryPolicy(), 1, error, Repeat::kHarmful, random), Seconds(42));
  error.retry_after = Seconds(0);
  EXPECT_GT(*PauseBeforeRetry(RetryPolicy(), 1, error, Repeat::kHarmful, random), Seconds(0));
}

TEST(RateLimit, LetsABurstGoAndSpreadsTheRest) {
  FakeClock clock;
  RateLimit limit(10, 3, clock.Now());
  const MonotonicTime start = clock.Now();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limit.Take(start), start);
  // Turns are given out ahead of time, so each caller gets a later one.
  EXPECT_NEAR(Seconds(limit.Take(start) - start).count(), 0.1, 1e-6);
  EXPECT_NEAR(Seconds(limit.Take(start) - start).count(), 0.2, 1e-6);
  clock.Advance(Seconds(0.35));
  EXPECT_EQ(limit.Take(clock.Now()), clock.Now());
  EXPECT_GT(limit.Take(clock.Now()), clock.Now());
}

TEST(RateLimit, WhoDoesNotWaitTakesNoTurnAhead) {
  FakeClock clock;
  RateLimit limit(10, 2, clock.Now());
  EXPECT_TRUE(limit.TryTake(clock.Now()));
  EXPECT_TRUE(limit.TryTake(clock.Now()));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limit.TryTake(clock.Now()));
  clock.Advance(Seconds(0.11));
  EXPECT_TRUE(limit.TryTake(clock.Now()));
  EXPECT_FALSE(limit.TryTake(clock.Now()));
}

TEST(RateLimit, SavesUpNoMoreThanABurst) {
  FakeClock clock;
  RateLimit limit(10, 2, clock.Now());
  clock.Advance(Seconds(3600));
  EXPECT_EQ(limit.Take(clock.Now()), clock.Now());
  EXPECT_EQ(limit.Take(clock.Now()), clock.Now());
  EXPECT_GT(limit.Take(clock.Now()), clock.Now());
}

TEST(RateLimit, ATurnThatComesTooLateIsNotTaken) {
  FakeClock clock;
  RateLimit limit(10, 1, clock.Now());
  EXPECT_TRUE(limit.TryTake(clock.Now()));
  // A refused caller takes no turn, so it does not delay the next.
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(limit.Take(clock.Now(), clock.Now() + std::chrono::milliseconds(50)), std::nullopt);
  }
  EXPECT_NEAR(Seconds(limit.Take(clock.Now()) - clock.Now()).count(), 0.1, 1e-6);
}

TEST(RateLimit, ATurnGivenBackIsAnothersAndNoMoreThanABurst) {
  FakeClock clock;
  RateLimit limit(10, 2, clock.Now());
  EXPECT_EQ(limit.Take(clock.Now()), clock.Now());
  EXPECT_EQ(limit.Take(clock.Now()), clock.Now());
  const MonotonicTime third = limit.Take(clock.Now());
  EXPECT_GT(third, clock.Now());
  limit.GiveBack(clock.Now());
  EXPECT_EQ(limit.Take(clock.Now()), third);
  clock.Advance(Seconds(3600));
  limit.GiveBack(clock.Now());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(limit.TryTake(clock.Now()));
  EXPECT_FALSE(limit.TryTake(clock.Now()));
}

}  // namespace
}  // namespace janus::control
