#include "dataplane/gateway/request_counts.h"

#include <gtest/gtest.h>

namespace janus::gateway {
namespace {

TEST(RequestCounts, CountsWhatBecomesOfRequests) {
  MetricRegistry registry;
  GatewayMetrics metrics(registry, "m");
  RequestCounts counts(metrics);
  for (const uint64_t prompt : {3U, 4U, 5U, 6U}) counts.Arrived(prompt);
  counts.CachedPrompt(2);
  counts.Unread();
  counts.Refused();
  counts.Failed();
  counts.Finished(7, Seconds(0.2), Seconds(0.02));
  counts.Finished(1, Seconds(3), std::nullopt);
  const GatewayCounts now = counts.Read();
  EXPECT_EQ(now.arrived, 4U);
  EXPECT_EQ(now.prompt_tokens, 18U);
  EXPECT_EQ(now.prompt_squares, 9U + 16 + 25 + 36);
  EXPECT_EQ(now.cached_prompt_tokens, 2U);
  EXPECT_EQ(now.unread, 1U);
  EXPECT_EQ(now.refused, 1U);
  EXPECT_EQ(now.failed, 1U);
  EXPECT_EQ(now.finished, 2U);
  EXPECT_EQ(now.output_tokens, 8U);
  EXPECT_EQ(now.ended(), 5U);
  EXPECT_EQ(now.latencies.total(), now.finished) << "each is in it once";
  EXPECT_EQ(now.latencies.Within(Seconds(1), Seconds(0.1)), 1);
  EXPECT_EQ(metrics.arrived.value(), 4U);
  EXPECT_EQ(metrics.arrived_prompt_tokens.value(), 18U);
  EXPECT_EQ(metrics.ended_finished.value(), 2U);
  EXPECT_EQ(metrics.ended_failed.value(), 1U);
  EXPECT_EQ(metrics.ended_refused.value(), 2U);
}

}  // namespace
}  // namespace janus::gateway
