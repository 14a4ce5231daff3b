#include "operator/manager/leader_gate.h"

#include <gtest/gtest.h>

#include "tests/support/kube/unimplemented_api.h"

namespace janus::control {
namespace {

const Resource kPods{"", "v1", "pods", "Pod", true};

// The result code of each API call through the gate.
std::vector<StatusCode> CodesOf(ObjectApi& api) {
  const ObjectKey key{"prod", "a"};
  const CallLimits limits;
  const Node object = Node::Map();
  return {
      api.Get(kPods, key, Subresource::kNone, limits).error().code,
      api.List(kPods, {}, limits).error().code,
      api.Create(kPods, object, {}, limits).error().code,
      api.Update(kPods, object, Subresource::kNone, {}, limits).error().code,
      api.Apply(kPods, object, Subresource::kNone, {}, limits).error().code,
      api.Patch(kPods, key, PatchKind::kMerge, object, Subresource::kNone, {}, limits).error().code,
      api.Delete(kPods, key, {}, limits).error().code,
      api.Watch(kPods, {}, [](const WatchEvent&) { return true; }, {}).error().code,
  };
}

class Answering final : public UnimplementedApi {};

TEST(LeaderGate, LetsNoCallThroughAfterTheTerm) {
  Answering api;
  bool may_act = true;
  LeaderGate gate(api, [&] { return may_act; });
  EXPECT_EQ(CodesOf(gate), std::vector<StatusCode>(8, StatusCode::kUnimplemented));
  may_act = false;
  EXPECT_EQ(CodesOf(gate), std::vector<StatusCode>(8, StatusCode::kCancelled));
}

}  // namespace
}  // namespace janus::control
