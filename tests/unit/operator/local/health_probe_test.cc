#include "operator/local/health_probe.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

TEST(LoopbackUrl, ReachesAnEndpointOfEveryInterfaceOverTheLoopback) {
  EXPECT_EQ(LoopbackUrl("http://0.0.0.0:8000"), "http://127.0.0.1:8000");
  EXPECT_EQ(LoopbackUrl("http://[::]:8000"), "http://[::1]:8000");
  EXPECT_EQ(LoopbackUrl("http://10.0.0.3:8000"), "http://10.0.0.3:8000");
  EXPECT_EQ(LoopbackUrl("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
}

TEST(IsHealthy, IsFalseWhereNobodyListens) {
  EXPECT_FALSE(IsHealthy("http://127.0.0.1:1"));
}

}  // namespace
}  // namespace janus::control
