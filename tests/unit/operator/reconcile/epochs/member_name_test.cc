#include "operator/reconcile/epochs/member_name.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

TEST(MemberName, IsShortAndSaysWhereToLook) {
  TopologyInstance one;
  one.role = Role::kExperts;
  one.node = "chat-experts-5d41402abc-2";
  one.address = "10.0.0.3:9000";
  EXPECT_EQ(MemberName(one), "experts-2 (pod chat-experts-5d41402abc-2, 10.0.0.3:9000)");
  one.address = "unix:/run/janus/e2.sock";
  EXPECT_EQ(MemberName(one), "experts-2") << "on one machine";
  for (const char* const node : {"", "node-a", "chat-attention-5d41402abc-2"}) {
    one.node = node;
    EXPECT_EQ(MemberName(one), "experts at unix:/run/janus/e2.sock") << node;
  }
}

}  // namespace
}  // namespace janus::control
