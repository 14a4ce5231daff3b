#include "dataplane/worker/supervise/merge_metrics.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

TEST(MergeMetrics, EverySampleSaysItsIndexAndAMetricStandsTogether) {
  const std::map<int, std::string> texts = {
      {0,
       "# HELP janus_rows_total Rows computed.\n"
       "# TYPE janus_rows_total counter\n"
       "janus_rows_total{role=\"experts\",rank=\"4\"} 12\n"
       "# HELP janus_step_seconds Time of a step.\n"
       "# TYPE janus_step_seconds histogram\n"
       "janus_step_seconds_bucket{rank=\"4\",le=\"+Inf\"} 3\n"
       "janus_step_seconds_sum{rank=\"4\"} 0.5\n"},
      {2,
       "# HELP janus_rows_total Rows computed.\n"
       "# TYPE janus_rows_total counter\n"
       "janus_rows_total{role=\"experts\",rank=\"6\"} 7\n"
       "# HELP janus_step_seconds Time of a step.\n"
       "# TYPE janus_step_seconds histogram\n"
       "janus_step_seconds_sum{rank=\"6\"} 0.25\n"
       "# HELP janus_holding_total Once { and = in its text.\n"
       "# TYPE janus_holding_total gauge\n"
       "janus_holding_total 1\n"
       "janus_holding_total{} 2\n"}};
  EXPECT_EQ(MergeMetrics(texts),
            "# HELP janus_rows_total Rows computed.\n"
            "# TYPE janus_rows_total counter\n"
            "janus_rows_total{index=\"0\",role=\"experts\",rank=\"4\"} 12\n"
            "janus_rows_total{index=\"2\",role=\"experts\",rank=\"6\"} 7\n"
            "# HELP janus_step_seconds Time of a step.\n"
            "# TYPE janus_step_seconds histogram\n"
            "janus_step_seconds_bucket{index=\"0\",rank=\"4\",le=\"+Inf\"} 3\n"
            "janus_step_seconds_sum{index=\"0\",rank=\"4\"} 0.5\n"
            "janus_step_seconds_sum{index=\"2\",rank=\"6\"} 0.25\n"
            "# HELP janus_holding_total Once { and = in its text.\n"
            "# TYPE janus_holding_total gauge\n"
            "janus_holding_total{index=\"2\"} 1\n"
            "janus_holding_total{index=\"2\"} 2\n");
}

TEST(MergeMetrics, NothingAndMalformedLinesGiveNothing) {
  EXPECT_EQ(MergeMetrics({}), "");
  EXPECT_EQ(MergeMetrics({{0, ""}, {1, "\n\n# a comment\n{}\nword\n# HELP x y\n"}}), "");
  EXPECT_EQ(MergeMetrics({{1, "x 1"}}), "x{index=\"1\"} 1\n") << "without a last newline";
}

}  // namespace
}  // namespace janus::dataplane
