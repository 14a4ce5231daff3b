#include "operator/reconcile/status/reasons.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "operator/reconcile/status/conditions.h"
#include "tests/support/paths.h"

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
  EXPECT_TRUE(IsKnownReason("ScalingReady", "False", "NoMetrics"));
  EXPECT_FALSE(IsKnownReason("ScalingReady", "False", "NotDecided"));
  EXPECT_FALSE(IsKnownReason("Ready", "False", "Ready"));
}

TEST(Reasons, AreSaidOnce) {
  std::set<std::string_view> seen;
  for (const ReasonMeaning& one : ReasonMeanings()) EXPECT_TRUE(seen.insert(one.reason).second);
  seen.clear();
  for (const EventMeaning& one : EventMeanings()) EXPECT_TRUE(seen.insert(one.reason).second);
}

TEST(Reasons, ArePrintedInTheDocsAsTheyAre) {
  std::ifstream in(test::SourceDir() + "/docs/conditions.md");
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), ConditionsPage()) << "put the text above into docs/conditions.md";
}

// The other direction: the tables have no line that the code does not use. A reason or Event is in
// quotes where it is used; if it disappears there, it must disappear from the tables.
TEST(Reasons, AreAllSaidSomewhere) {
  std::string sources;
  for (const char* folder :
       {"/operator/reconcile", "/operator/planner", "/operator/manager", "/controllers/scaling"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(test::SourceDir() + folder)) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(".cc") || name == "reasons.cc") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        sources += line.substr(0, line.find("//")) + "\n";
      }
    }
  }
  const auto is_said = [&](std::string_view word) {
    return sources.find("\"" + std::string(word) + "\"") != std::string::npos;
  };
  EXPECT_FALSE(is_said("ThereIsNoSuchReason"));
  for (const ReasonMeaning& one : ReasonMeanings()) EXPECT_TRUE(is_said(one.reason)) << one.reason;
  for (const EventMeaning& one : EventMeanings()) EXPECT_TRUE(is_said(one.reason)) << one.reason;
}

}  // namespace
}  // namespace janus::control
