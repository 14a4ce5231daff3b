#include "operator/reconcile/reasons.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "operator/reconcile/conditions.h"

namespace janus::control {
namespace {

TEST(Reasons, KnowEveryConditionInItsOrder) {
  std::vector<std::string_view> types;
  for (const ConditionMeaning& one : ConditionMeanings()) types.push_back(one.type);
  EXPECT_EQ(types,
            std::vector<std::string_view>(std::begin(kConditionTypes), std::end(kConditionTypes)));
}

TEST(Reasons, AreOfATypeAndAStatus) {
  EXPECT_TRUE(IsKnownReason("Ready", "True", "AsWanted"));
  EXPECT_FALSE(IsKnownReason("Ready", "False", "AsWanted"));
  EXPECT_FALSE(IsKnownReason("Available", "True", "AsWanted"));
  EXPECT_TRUE(IsKnownReason("Stalled", "True", "NotSupported"));
  EXPECT_TRUE(IsKnownReason("ScalingReady", "False", "NotSupported"));
  EXPECT_FALSE(IsKnownReason("ScalingReady", "Unknown", "NotSupported"));
  EXPECT_FALSE(IsKnownReason("Ready", "False", "Ready"));
}

TEST(Reasons, AreSaidOnce) {
  std::set<std::string_view> seen;
  for (const ReasonMeaning& one : ReasonMeanings()) EXPECT_TRUE(seen.insert(one.reason).second);
  seen.clear();
  for (const EventMeaning& one : EventMeanings()) EXPECT_TRUE(seen.insert(one.reason).second);
}

TEST(Reasons, ArePrintedInTheDocsAsTheyAre) {
  std::ifstream in(JANUS_SOURCE_DIR "/docs/conditions.md");
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), ConditionsPage()) << "put the text above into docs/conditions.md";
}

}  // namespace
}  // namespace janus::control
