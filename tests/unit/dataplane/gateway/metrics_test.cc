#include "dataplane/gateway/gateway_metrics.h"

#include <gtest/gtest.h>

#include "common/exposition/metrics_text.h"
#include "tests/support/contains.h"

namespace janus::gateway {
namespace {

TEST(GatewayMetrics, EscapeTheModelsName) {
  MetricRegistry registry;
  const GatewayMetrics metrics(registry, "a\"b\\c\n");
  EXPECT_TRUE(Contains(PrometheusText(registry.Collect()),
                       "vllm:num_requests_running{model_name=\"a\\\"b\\\\c\\n\"}"));
}

}  // namespace
}  // namespace janus::gateway
