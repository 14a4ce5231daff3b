#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "operator/api/parse.h"
#include "operator/api/reference_page.h"
#include "tests/support/api/bad_objects.h"
#include "tests/support/api/crd.h"

namespace janus::control {
namespace {

bool Names(const FieldErrors& errors, const std::string& path) {
  return std::any_of(errors.begin(), errors.end(),
                     [&](const FieldError& error) { return error.path == path; });
}

// Every schema below `schema` that describes a value, with its path.
template <class F>
void ForEachField(const Node& schema, const std::string& path, const F& visit) {
  visit(schema, path);
  if (const Node* properties = schema.Find("properties")) {
    for (const NodeField& property : properties->fields) {
      ForEachField(property.value, path + "." + property.name, visit);
    }
  }
  if (const Node* items = schema.Find("items")) ForEachField(*items, path + "[]", visit);
  if (const Node* values = schema.Find("additionalProperties")) {
    ForEachField(*values, path + ".*", visit);
  }
}

constexpr const char* kCrds[] = {"moeservices", "moerolescalers", "moetopologies",
                                 "hardwareprofiles"};

TEST(Crds, SayOfEveryFieldWhatItIs) {
  for (const char* plural : kCrds) {
    const Node crd = test::ReadCrd(plural);
    ForEachField(test::SchemaOf(crd), plural, [&](const Node& field, const std::string& path) {
      if (path.ends_with(".metadata") || path.ends_with(".metadata.name")) return;
      EXPECT_NE(test::Keyword(field, "description"), "") << path;
    });
  }
}

// The API server reckons with what is not bounded as if it were as large as a request may be.
TEST(Crds, BoundEveryListMapAndTextOfTheSpec) {
  for (const char* plural : kCrds) {
    const Node crd = test::ReadCrd(plural);
    const Node* spec = test::PropertyOf(test::SchemaOf(crd), "spec");
    ForEachField(*spec, plural, [](const Node& field, const std::string& path) {
      const std::string type = test::Keyword(field, "type");
      if (type == "array") {
        EXPECT_NE(field.Find("maxItems"), nullptr) << path;
      }
      if (type == "string" && field.Find("enum") == nullptr) {
        EXPECT_NE(field.Find("maxLength"), nullptr) << path;
      }
      if (field.Find("additionalProperties") != nullptr) {
        EXPECT_NE(field.Find("maxProperties"), nullptr) << path;
      }
      if (type == "integer" && field.Find("enum") == nullptr) {
        EXPECT_NE(field.Find("minimum"), nullptr) << path;
      }
    });
  }
}

TEST(Crds, DescribeWhatBothRolesHaveAlike) {
  const Node crd = test::ReadCrd("moeservices");
  const Node* roles = test::PropertyOf(*test::PropertyOf(test::SchemaOf(crd), "spec"), "roles");
  const Node* attention = test::PropertyOf(*roles, "attention");
  const Node* experts = test::PropertyOf(*roles, "experts");
  for (const char* field :
       {"instancesPerPod", "tensorParallel", "hardwareProfile", "resources", "nodeSelector",
        "tolerations", "schedulerName", "priorityClassName", "podTemplate"}) {
    EXPECT_TRUE(*test::PropertyOf(*attention, field) == *test::PropertyOf(*experts, field))
        << field;
  }
}

TEST(Crds, DefaultToWhatTheObjectHasByItself) {
  const Node crd = test::ReadCrd("moeservices");
  int filled = 0;
  for (const Node& good : test::GoodMoEServices()) {
    // Objects alone, their scalars left out where they may be.
    Node bare = good;
    const auto strip = [&](const auto& self, const Node& schema, Node& node) -> void {
      for (Node& item : node.items) self(self, *schema.Find("items"), item);
      std::erase_if(node.fields, [&](const NodeField& field) {
        const Node* property = test::PropertyOf(schema, field.name);
        return property != nullptr && property->Find("default") != nullptr;
      });
      for (NodeField& field : node.fields) {
        if (const Node* property = test::PropertyOf(schema, field.name)) {
          self(self, *property, field.value);
        }
      }
    };
    strip(strip, test::SchemaOf(crd), bare);
    Node defaulted = bare;
    test::ApplyDefaults(test::SchemaOf(crd), defaulted);
    filled += bare == defaulted ? 0 : 1;
    const ParsedService without = ParseMoEService(bare);
    const ParsedService with = ParseMoEService(defaulted);
    EXPECT_TRUE(without.errors.empty()) << FormatErrors("bare", without.errors);
    EXPECT_TRUE(with.errors.empty()) << FormatErrors("defaulted", with.errors);
    EXPECT_TRUE(without.object.spec == with.object.spec) << test::ToJson(defaulted);
  }
  EXPECT_GT(filled, 0);
}

TEST(Crds, ArePrintedInTheDocsAsTheyAre) {
  std::vector<Node> crds;
  for (const char* plural : kCrds) crds.push_back(test::ReadCrd(plural));
  const std::string fresh = ReferencePage(crds);
  std::ifstream in(JANUS_SOURCE_DIR "/docs/api.md");
  std::ostringstream page;
  page << in.rdbuf();
  if (page.str() == fresh) return;
  const std::string path = testing::TempDir() + "api.md";
  std::ofstream(path) << fresh;
  ADD_FAILURE() << "docs/api.md is older than crds/; cp " << path << " docs/api.md";
}

TEST(BadObjects, AreMadeOfObjectsThatPass) {
  for (const Node& good : test::GoodMoEServices()) {
    EXPECT_EQ(FormatErrors("good", test::Judge(good)), "");
  }
}

TEST(BadObjects, ReachEveryLeafOfTheSchemaAndAreRefusedByPath) {
  const Node crd = test::ReadCrd("moeservices");
  const test::BadObjects bad = test::MakeBadObjects(test::SchemaOf(crd), test::GoodMoEServices());
  for (const std::string& leaf : bad.leaves) {
    EXPECT_TRUE(bad.covered.count(leaf)) << leaf << " stands in no good object";
  }
  EXPECT_GT(bad.objects.size(), 400u);
  for (const test::BadObject& one : bad.objects) {
    const FieldErrors errors = test::Judge(one.object);
    EXPECT_TRUE(Names(errors, one.path)) << one.name << ": " << FormatErrors("", errors);
  }
}

// A value at its border may break a rule with another field, as replicas = 0 does; its own path is
// then not what is wrong.
TEST(BadObjects, AreTakenAtTheBordersOfTheSchema) {
  const Node crd = test::ReadCrd("moeservices");
  const test::BadObjects bad = test::MakeBadObjects(test::SchemaOf(crd), test::GoodMoEServices());
  EXPECT_GT(bad.at_borders.size(), 200u);
  int taken = 0;
  for (const test::BadObject& one : bad.at_borders) {
    const FieldErrors errors = test::Judge(one.object);
    taken += errors.empty() ? 1 : 0;
    for (const FieldError& error : errors) {
      if (error.path == one.path && !error.path.ends_with("Replicas")) {
        ADD_FAILURE() << one.name << ": " << error.message;
      }
    }
  }
  EXPECT_GT(taken * 10, static_cast<int>(bad.at_borders.size()) * 8);
}

TEST(BadObjects, BreakEveryRuleAndAreRefusedByPath) {
  const Node crd = test::ReadCrd("moeservices");
  std::set<std::string> rules = test::RulesOf(test::SchemaOf(crd));
  for (const test::RuleBreaker& breaker : test::BreakRules()) {
    const FieldErrors errors = test::Judge(breaker.bad.object);
    EXPECT_TRUE(Names(errors, breaker.bad.path))
        << breaker.bad.name << ": " << FormatErrors("", errors);
    rules.erase(breaker.rule);
  }
  for (const std::string& rule : rules) ADD_FAILURE() << rule << " is never broken";
}

}  // namespace
}  // namespace janus::control
