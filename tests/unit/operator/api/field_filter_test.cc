#include "operator/api/field_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "operator/api/json.h"

namespace janus::control {
namespace {

const char kPod[] =
    R"({"apiVersion":"v1","kind":"Pod",)"
    R"("metadata":{"name":"a","namespace":"prod","uid":"1","resourceVersion":"7",)"
    R"("labels":{"app.kubernetes.io/name":"x"},"managedFields":[{"manager":"m"}]},)"
    R"("spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"},)"
    R"({"name":"d","ports":[{"name":"p","port":1}]}]},"status":{"phase":"Running"}})";

std::string Keep(const std::vector<std::string_view>& paths) {
  return WriteJson(FieldFilter(paths)(*ParseJson(kPod, "test")));
}
constexpr std::string_view kIdentity =
    R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"prod","uid":"1")";

TEST(FieldFilter, KeepsWhatTellsAnObjectApart) {
  EXPECT_EQ(Keep({}), std::string(kIdentity) + "}}");
}

TEST(FieldFilter, KeepsAFieldWithAllBelowIt) {
  EXPECT_EQ(Keep({"metadata.labels", "status"}),
            std::string(kIdentity) + R"(,"labels":{"app.kubernetes.io/name":"x"}},)" +
                R"("status":{"phase":"Running"}})");
}

TEST(FieldFilter, PassesThroughLists) {
  EXPECT_EQ(Keep({"spec.containers.name", "spec.containers.ports.port"}),
            std::string(kIdentity) +
                R"(},"spec":{"containers":[{"name":"c"},{"name":"d","ports":[{"port":1}]}]}})");
}

TEST(FieldFilter, TheWiderOfTwoPathsCounts) {
  const std::string wide = Keep({"spec.containers"});
  EXPECT_EQ(Keep({"spec.containers.name", "spec.containers"}), wide);
  EXPECT_EQ(Keep({"spec.containers", "spec.containers.name"}), wide);
}

TEST(FieldFilter, WhatIsNotThereIsLeftOutAndATextOnTheWayKept) {
  EXPECT_EQ(Keep({"spec.nodeName.deeper", "no.such"}),
            std::string(kIdentity) + R"(},"spec":{"nodeName":"n1"}})");
}

}  // namespace
}  // namespace janus::control
