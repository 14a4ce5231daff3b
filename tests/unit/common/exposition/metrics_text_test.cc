#include "common/exposition/metrics_text.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

TEST(Metrics, PrintPrometheusText) {
  MetricRegistry registry;
  registry.AddCounter("c_total", {{"code", "200"}}, "Calls.").Add(3);
  registry.AddCounter("c_total", {{"code", "500"}}, "Calls.").Add();
  registry.AddGauge("g", {}, "A level.").Set(0.5);
  Histogram& h = registry.AddHistogram("h_seconds", {{"a", "b"}}, "Times.", {0.1, 1});
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

}  // namespace
}  // namespace janus
