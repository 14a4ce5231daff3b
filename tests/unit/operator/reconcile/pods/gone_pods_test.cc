#include "operator/reconcile/pods/gone_pods.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

PodSeen Pod(const std::string& uid, bool is_leaving) {
  PodSeen out;
  out.uid = uid;
  out.name = "pod-" + uid;
  out.is_leaving = is_leaving;
  return out;
}

TEST(GonePods, AreOfPodsThatWereLeavingAndAreNoMore) {
  std::map<std::string, std::string> leaving;
  const auto gone = [&](const std::vector<PodSeen>& pods) { return TakeGonePods(pods, leaving); };
  EXPECT_TRUE(gone({Pod("a", false), Pod("b", true), Pod("c", true)}).empty());
  EXPECT_EQ(gone({Pod("a", false), Pod("c", true)}), (std::vector<std::string>{"pod-b"}));
  EXPECT_TRUE(gone({Pod("a", true), Pod("c", true)}).empty()) << "told once";
  EXPECT_EQ(gone({}), (std::vector<std::string>{"pod-a", "pod-c"}));
  EXPECT_TRUE(gone({Pod("d", false)}).empty());
  EXPECT_TRUE(gone({}).empty()) << "one that was not leaving is lost, not drained";
}

}  // namespace
}  // namespace janus::control
