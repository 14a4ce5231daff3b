#include "operator/local/store/structural_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "operator/api/json.h"
#include "operator/local/store/kinds.h"
#include "operator/local/store/tree_edit.h"
#include "tests/support/api/bad_objects.h"
#include "tests/support/api/good_objects.h"

namespace janus::control {
namespace {

const StructuralSchema& Schema() {
  static const Result<StructuralSchema> schema = StructuralSchema::FromCrd(R"(
spec:
  versions:
  - schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              mode: {type: string, default: Auto}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true}
              list:
                type: array
                items: {type: object, properties: {size: {type: integer, default: 2}}}
              inner: {type: object, properties: {set: {type: boolean, default: false}}}
          status:
            type: object
            required: [count]
            properties:
              count: {type: integer, minimum: 0, maximum: 9}
              state: {type: string, enum: [Up, Down], maxLength: 4}
)",
                                                                           "test");
  JANUS_CHECK(schema.ok(), schema.status().ToString());
  return *schema;
}

Node Read(std::string_view json) {
  return *ParseJson(json, "test");
}

std::string Defaulted(std::string_view json) {
  Node object = Read(json);
  SetDefaults(Schema().root(), object);
  SortFields(object);
  return WriteJson(object);
}

TEST(StructuralSchema, DropsWhatItDoesNotHaveAndNamesIt) {
  Node object =
      Read(R"({"kind":"K","metadata":{"any":1},"spec":{"mode":"A","typo":1,"open":{"any":{"x":1}},)"
           R"("list":[{"size":1},{"size":1,"other":2}]},"more":3})");
  EXPECT_EQ(Schema().Prune(object),
            (std::vector<std::string>{"spec.typo", "spec.list[1].other", "more"}));
  EXPECT_EQ(WriteJson(object),
            R"({"kind":"K","metadata":{"any":1},"spec":{"mode":"A","open":{"any":{"x":1}},)"
            R"("list":[{"size":1},{"size":1}]}})");
}

TEST(StructuralSchema, DropsANullThatNoDefaultTakesThePlaceOf) {
  Node object = Read(R"({"spec":{"mode":null,"inner":null,"open":{"any":null},)"
                     R"("list":[{"size":null},null]}})");
  EXPECT_TRUE(Schema().Prune(object).empty());
  EXPECT_EQ(WriteJson(object),
            R"({"spec":{"mode":null,"open":{"any":null},"list":[{"size":null},null]}})");
}

TEST(StructuralSchema, SetsDefaultsInTheObjectsThatAreThere) {
  EXPECT_EQ(Defaulted(R"({"spec":{}})"), R"({"spec":{"mode":"Auto"}})");
  EXPECT_EQ(Defaulted(R"({"spec":{"mode":null,"inner":{},"list":[{},{"size":3}]}})"),
            R"({"spec":{"inner":{"set":false},"list":[{"size":2},{"size":3}],"mode":"Auto"}})");
  EXPECT_EQ(Defaulted(R"({})"), R"({})");
}

TEST(StructuralSchema, JudgesAStatusByTypeEnumerationAndBound) {
  const auto paths = [](std::string_view json) {
    std::vector<std::string> out;
    for (const ApiCause& cause : Schema().JudgeStatus(Read(json))) out.push_back(cause.field);
    return out;
  };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(paths(R"({"status":{"count":3,"state":"Up"}})"), Paths{});
  EXPECT_EQ(paths(R"({})"), Paths{});
  EXPECT_EQ(paths(R"({"status":{}})"), Paths{"status.count"});
  EXPECT_EQ(paths(R"({"status":{"count":10}})"), Paths{"status.count"});
  EXPECT_EQ(paths(R"({"status":{"count":"1"}})"), Paths{"status.count"});
  EXPECT_EQ(paths(R"({"status":{"count":1,"state":"Off"}})"), Paths{"status.state"});
}

// Every leaf of every status in crds/, as e2e/api/crds_test.py checks with an API server.
TEST(StructuralSchema, RefusesBadStatusesOfOurKindsByPath) {
  int kinds = 0;
  for (const Kind& kind : Kinds()) {
    if (kind.schema == nullptr || !kind.has_status) continue;
    ++kinds;
    const std::vector<Node> good = test::GoodObjects(kind.resource.plural);
    const test::BadObjects made = test::MakeBadStatuses(kind.schema->root(), good.at(0));
    EXPECT_EQ(made.covered, made.leaves) << kind.resource.plural;
    EXPECT_GT(made.objects.size(), 2 * made.leaves.size());
    for (const test::BadObject& one : made.objects) {
      std::vector<std::string> refused;
      if (one.is_unknown_field) {
        Node object = one.object;
        refused = kind.schema->Prune(object);
      } else {
        for (const ApiCause& cause : kind.schema->JudgeStatus(one.object)) {
          refused.push_back(cause.field);
        }
      }
      const bool is_named = std::find(refused.begin(), refused.end(), one.path) != refused.end();
      EXPECT_TRUE(is_named) << one.name;
    }
    for (const test::BadObject& border : made.at_borders) {
      EXPECT_TRUE(kind.schema->JudgeStatus(border.object).empty()) << border.name;
    }
  }
  EXPECT_EQ(kinds, 3);
}

TEST(Kinds, OursHaveTheirSchema) {
  for (const Kind& kind : Kinds()) {
    EXPECT_EQ(kind.schema != nullptr, kind.resource.group == "serving.janus.dev");
    EXPECT_EQ(FindKind(kind.resource), &kind);
    EXPECT_EQ(FindKind(kind.resource.ApiVersion(), kind.resource.kind), &kind);
  }
}

}  // namespace
}  // namespace janus::control
