#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "operator/api/moe_topology.h"
#include "operator/api/nearest.h"
#include "operator/api/parse.h"
#include "operator/api/reference_page.h"
#include "operator/api/role_scaler.h"
#include "tests/support/api/crd.h"
#include "tests/support/api/good_objects.h"
#include "tests/support/paths.h"

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

TEST(Crds, SayOfEveryFieldWhatItIs) {
  for (const char* plural : test::kPlurals) {
    const Node crd = test::ReadCrd(plural);
    ForEachField(test::SchemaOf(crd), plural, [&](const Node& field, const std::string& path) {
      if (path.ends_with(".metadata") || path.ends_with(".metadata.name") ||
          path.ends_with(".metadata.generateName")) {
        return;
      }
      EXPECT_NE(test::Keyword(field, "description"), "") << path;
    });
  }
}

// kubectl reads YAML 1.1, where a bare n is false, so the field would get that name.
TEST(Crds, QuoteTheKeysThatYamlTakesForTruthValues) {
  const std::regex bare("(^|\\n)[ -]*(y|n|yes|no|on|off|true|false):", std::regex::icase);
  for (const char* plural : test::kPlurals) {
    std::ifstream file(test::SourceDir() + "/crds/" + plural + ".yaml");
    std::stringstream text;
    text << file.rdbuf();
    ASSERT_FALSE(text.str().empty()) << plural;
    std::smatch found;
    const std::string all = text.str();
    EXPECT_FALSE(std::regex_search(all, found, bare)) << plural << ": " << found.str();
  }
}

// The API server treats an unbounded field as being as large as a request may be.
TEST(Crds, BoundEveryListMapAndTextOfTheSpec) {
  for (const char* plural : test::kPlurals) {
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

// A message with a regular expression does not say what to write instead.
TEST(Crds, SayInWordsHowTheFieldsOfASpecAreWritten) {
  int forms = 0;
  for (const char* plural : test::kPlurals) {
    const Node crd = test::ReadCrd(plural);
    ForEachField(test::SchemaOf(crd), plural, [&](const Node& field, const std::string& path) {
      const bool is_status = path.starts_with(std::string(plural) + ".status");
      if (!is_status) {
        EXPECT_EQ(field.Find("pattern"), nullptr) << path;
      }
      const Node* const rules = field.Find("x-kubernetes-validations");
      if (rules == nullptr) return;
      for (const Node& rule : rules->items) {
        if (test::Keyword(rule, "rule").find(".matches(") == std::string::npos) continue;
        ++forms;
        const std::string words = test::Keyword(rule, "messageExpression");
        EXPECT_TRUE(words.find("want ") != words.npos || words.find("write ") != words.npos)
            << path << ": " << words;
        EXPECT_EQ(words.find_first_of("^$[]"), words.npos) << path << ": " << words;
      }
    });
  }
  EXPECT_GT(forms, 10);
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
  for (const Node& good : test::GoodObjects("moeservices")) {
    // Only objects, without optional scalars.
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
  for (const char* plural : test::kPlurals) crds.push_back(test::ReadCrd(plural));
  const std::string fresh = ReferencePage(crds);
  std::ifstream in(test::SourceDir() + "/docs/api.md");
  std::ostringstream page;
  page << in.rdbuf();
  if (page.str() == fresh) return;
  const std::string path = testing::TempDir() + "api.md";
  std::ofstream(path) << fresh;
  ADD_FAILURE() << "docs/api.md is older than crds/; cp " << path << " docs/api.md";
}

class BadObjects : public testing::TestWithParam<const char*> {
 protected:
  BadObjects()
      : crd_(test::ReadCrd(GetParam())),
        schema_(test::SchemaOf(crd_)),
        made_(test::MakeBadObjects(schema_, test::GoodObjects(GetParam()))) {}

  const Node crd_;
  const Node& schema_;
  const test::BadObjects made_;
};

TEST_P(BadObjects, AreMadeOfObjectsThatPass) {
  for (const Node& good : test::GoodObjects(GetParam())) {
    EXPECT_EQ(FormatErrors("good", test::Judge(good)), "");
  }
}

TEST_P(BadObjects, ReachEveryLeafOfTheSchemaAndAreRefusedByPath) {
  for (const std::string& leaf : made_.leaves) {
    EXPECT_TRUE(made_.covered.count(leaf)) << leaf << " stands in no good object";
  }
  EXPECT_GT(made_.objects.size(), 3 * made_.leaves.size());
  for (const test::BadObject& one : made_.objects) {
    const FieldErrors errors = test::Judge(one.object);
    EXPECT_TRUE(Names(errors, one.path)) << one.name << ": " << FormatErrors("", errors);
  }
}

TEST_P(BadObjects, AreToldTheValuesThatTheSchemaAllows) {
  for (const test::BadObject& one : made_.objects) {
    if (one.allowed.empty()) continue;
    const std::vector<std::string_view> allowed(one.allowed.begin(), one.allowed.end());
    std::string list;
    for (const std::string& value : one.allowed) list += (list.empty() ? "" : ", ") + value;
    const std::string message = test::Judge(one.object).at(0).message;
    EXPECT_TRUE(message.ends_with("; use " + JoinOr(allowed)) ||
                message.ends_with("; want one of " + list))
        << one.name << ": " << message;
  }
}

// A value at its bound may break a rule with another field, as replicas = 0 does; then the error is
// not at its path.
TEST_P(BadObjects, AreTakenAtTheBordersOfTheSchema) {
  int taken = 0;
  for (const test::BadObject& one : made_.at_borders) {
    const FieldErrors errors = test::Judge(one.object);
    taken += errors.empty() ? 1 : 0;
    for (const FieldError& error : errors) {
      const bool of_two = one.path.ends_with("Replicas") || one.path.ends_with(".epoch") ||
                          one.path.ends_with(".endedEpoch");
      if (error.path == one.path && !of_two) ADD_FAILURE() << one.name << ": " << error.message;
    }
  }
  EXPECT_GT(taken * 10, static_cast<int>(made_.at_borders.size()) * 7);
}

TEST_P(BadObjects, BreakEveryRuleAndAreRefusedByPath) {
  std::set<std::string> rules = test::RulesOf(schema_);
  for (const test::RuleBreaker& breaker : test::BreakRules(GetParam())) {
    const FieldErrors errors = test::Judge(breaker.bad.object);
    EXPECT_TRUE(Names(errors, breaker.bad.path))
        << breaker.bad.name << ": " << FormatErrors("", errors);
    rules.erase(breaker.rule);
  }
  for (const std::string& rule : rules) ADD_FAILURE() << rule << " is never broken";
}

TEST_P(BadObjects, BreakEveryRuleOfChangesAndAreRefusedByPath) {
  std::set<std::string> rules = test::ChangeRulesOf(schema_);
  for (const test::ChangeBreaker& breaker : test::BreakChanges(GetParam())) {
    EXPECT_EQ(FormatErrors("before", test::Judge(breaker.before)), "");
    EXPECT_EQ(FormatErrors("after", test::Judge(breaker.after.object)), "") << "by itself";
    const FieldErrors errors = test::JudgeChange(breaker.before, breaker.after.object);
    ASSERT_EQ(errors.size(), 1u) << breaker.rule << FormatErrors("", errors);
    EXPECT_EQ(errors[0].path, breaker.after.path) << breaker.rule;
    rules.erase(breaker.rule);
  }
  for (const std::string& rule : rules) ADD_FAILURE() << rule << " is never broken";
}

TEST_P(BadObjects, AreNotMadeByNullInPlaceOfNothing) {
  EXPECT_GT(made_.nulls.size(), made_.leaves.size());
  for (const auto& [null, without] : made_.nulls) {
    const std::string name = null.name;
    if (without) {
      EXPECT_EQ(FormatErrors(name, test::Judge(null.object)),
                FormatErrors(name, test::Judge(*without)));
    } else if (null.path == "spec") {
      EXPECT_TRUE(Names(test::Judge(null.object), "spec"));
    } else {
      EXPECT_TRUE(null.path.ends_with("]")) << name;
      EXPECT_TRUE(Names(test::Judge(null.object), null.path)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BadObjects, testing::ValuesIn(test::kPlurals),
                         [](const auto& info) { return std::string(info.param); });

// The same cases as in e2e/api/crds_test.py with an API server.
TEST(MoETopology, NeverGoesBack) {
  const MoETopology before = ParseMoETopology(test::GoodObjects("moetopologies")[0]).object;
  EXPECT_TRUE(ValidateUpdate(before, before).empty());
  MoETopology after = before;
  after.spec.fence -= 1;
  after.spec.last_epoch -= 1;
  after.spec.committed->epoch -= 1;
  EXPECT_EQ(FormatErrors("", ValidateUpdate(before, after)),
            ": spec.fence: is 2, less than 3\n"
            ": spec.lastEpoch: is 5, less than 6\n"
            ": spec.committed.epoch: may not go back to an older epoch");
  after = before;
  after.spec.ended_epoch -= 1;
  EXPECT_EQ(ValidateUpdate(before, after).at(0).path, "spec.endedEpoch");
  after = before;
  after.spec.committed.reset();
  EXPECT_EQ(ValidateUpdate(before, after).at(0).path, "spec.committed.epoch");
}

TEST(MoERoleScaler, KeepsServiceAndRole) {
  const RoleScaler before = ParseRoleScaler(test::GoodObjects("moerolescalers")[0]).object;
  RoleScaler after = before;
  after.spec.replicas = 9;
  EXPECT_TRUE(ValidateUpdate(before, after).empty());
  after.spec.service = "other";
  after.spec.role = Role::kAttention;
  EXPECT_EQ(ValidateUpdate(before, after).size(), 2u);
}

}  // namespace
}  // namespace janus::control
