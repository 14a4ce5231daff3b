#include "common/exposition/metrics_text.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

constexpr MetricDeclaration kMetrics[] = {
    {"c_total", MetricType::kCounter, "code", "calls", "Calls."},
    {"g", MetricType::kGauge, "", "levels", "A level."},
    {"h_seconds", MetricType::kHistogram, "a", "seconds", "Times."},
};

TEST(Metrics, PrintPrometheusText) {
  MetricRegistry registry;
  registry.AddCounter({kMetrics, "c_total"}, {{"code", "200"}}).Add(3);
  registry.AddCounter({kMetrics, "c_total"}, {{"code", "500"}}).Add();
  registry.AddGauge({kMetrics, "g"}, {}).Set(0.5);
  Histogram& h = registry.AddHistogram({kMetrics, "h_seconds"}, {{"a", "b"}}, {0.1, 1});
  h.Observe(0.1);  // a bound belongs to its bucket
  h.Observe(0.5);
  h.Observe(30);
  EXPECT_EQ(PrometheusText(registry.Collect()),
            "# HELP c_total Calls.\n# TYPE c_total counter\n"
            "c_total{code=\"200\"} 3\nc_total{code=\"500\"} 1\n"
            "# HELP g A level.\n# TYPE g gauge\ng 0.5\n"
            "# HELP h_seconds Times.\n# TYPE h_seconds histogram\n"
            "h_seconds_count{a=\"b\"} 3\nh_seconds_sum{a=\"b\"} 30.6\n"
            "h_seconds_bucket{a=\"b\",le=\"0.1\"} 1\nh_seconds_bucket{a=\"b\",le=\"1\"} 2\n"
            "h_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\n");
}

TEST(Metrics, HaveTheLabelsThatAreDeclared) {
  EXPECT_TRUE(AreDeclared({}, ""));
  EXPECT_TRUE(AreDeclared({{"a", "1"}, {"b", "2"}}, "a,b"));
  EXPECT_FALSE(AreDeclared({{"b", "2"}, {"a", "1"}}, "a,b"));
  EXPECT_FALSE(AreDeclared({{"a", "1"}}, "a,b"));
  EXPECT_TRUE(AreDeclared({{"a", "1"}}, "a,b?"));
  EXPECT_TRUE(AreDeclared({{"a", "1"}, {"b", "2"}}, "a,b?"));
  EXPECT_FALSE(AreDeclared({{"a", "1"}, {"c", "2"}}, "a,b?"));
  EXPECT_FALSE(AreDeclared({{"a", "1"}}, ""));
}

TEST(MetricsDeathTest, AreAddedAsTheyAreDeclared) {
  MetricRegistry registry;
  EXPECT_DEATH(registry.AddGauge({kMetrics, "c_total"}, {{"code", "200"}}), "c_total");
  EXPECT_DEATH(registry.AddCounter({kMetrics, "c_total"}, {{"cod", "200"}}), "c_total");
}

}  // namespace
}  // namespace janus
