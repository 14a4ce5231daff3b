#include "dataplane/gateway/metrics.h"

#include <gtest/gtest.h>

#include "dataplane/gateway/gateway_metrics.h"
#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

TEST(Metrics, PrintPrometheusText) {
  MetricRegistry registry;
  registry.AddCounter("c_total", "code=\"200\"", "Calls.").Add(3);
  registry.AddCounter("c_total", "code=\"500\"", "Calls.").Add();
  registry.AddGauge("g", "", "A level.").Set(0.5);
  Histogram& h = registry.AddHistogram("h_seconds", "a=\"b\"", "Times.", {0.1, 1});
  h.Observe(0.1);  // a bound belongs to its bucket
  h.Observe(0.5);
  h.Observe(30);
  EXPECT_EQ(registry.Print(),
            "# HELP c_total Calls.\n# TYPE c_total counter\n"
            "c_total{code=\"200\"} 3\nc_total{code=\"500\"} 1\n"
            "# HELP g A level.\n# TYPE g gauge\ng 0.5\n"
            "# HELP h_seconds Times.\n# TYPE h_seconds histogram\n"
            "h_seconds_bucket{a=\"b\",le=\"0.1\"} 1\nh_seconds_bucket{a=\"b\",le=\"1\"} 2\n"
            "h_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\n"
            "h_seconds_sum{a=\"b\"} 30.6\nh_seconds_count{a=\"b\"} 3\n");
}

TEST(Metrics, EscapeTheModelsName) {
  MetricRegistry registry;
  const GatewayMetrics metrics(registry, "a\"b\\c\n");
  EXPECT_TRUE(
      Contains(registry.Print(), "vllm:num_requests_running{model_name=\"a\\\"b\\\\c\\n\"}"));
}

}  // namespace
}  // namespace janus::gateway
