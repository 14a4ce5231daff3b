#include "operator/scaling/late_results.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

TEST(RemedyOfLateResults, CanBeFollowed) {
  EXPECT_EQ(RemedyOfLateResults({"H200", "deepseek-v3", 64, 8}),
            "lower spec.timed.timeScale (now 8), raise spec.timed.scale (now 64) and send fewer "
            "requests, or use more cores");
  EXPECT_EQ(RemedyOfLateResults({"H200", "deepseek-v3", 64, 1}),
            "raise spec.timed.scale (now 64) and send fewer requests, name slower hardware or a "
            "larger model in spec.timed, allow fewer instances (scaling.maxReplicas of the roles), "
            "or use more cores");
  EXPECT_EQ(RemedyOfLateResults({"H200", "deepseek-v3", kMostTimedScale, 2}),
            "lower spec.timed.timeScale (now 2), or use more cores");
}

}  // namespace
}  // namespace janus::control
