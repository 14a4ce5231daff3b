#include "operator/local/store/json_patch.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

struct Case {
  const char* name;
  const char* document;
  const char* patch;
  const char* result;                 // null: it fails
  StatusCode code = StatusCode::kOk;  // with this
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.document << " patched with " << c.patch;
}

Node Read(std::string_view json) {
  return *ParseJson(json, "test");
}

class JsonPatchTest : public testing::TestWithParam<Case> {};

TEST_P(JsonPatchTest, DoesAsItShould) {
  const Case& c = GetParam();
  const Result<Node> patched = JsonPatch(Read(c.document), Read(c.patch));
  ASSERT_EQ(patched.status().code(), c.code) << patched.status().ToString();
  if (c.result != nullptr) {
    EXPECT_TRUE(IsSameJson(*patched, Read(c.result))) << WriteJson(*patched);
  }
}

constexpr StatusCode kUnfit = StatusCode::kFailedPrecondition;
constexpr StatusCode kBroken = StatusCode::kInvalidArgument;
std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

// RFC 6902, appendix A. Without A.13: ParseJson refuses a repeated member.
INSTANTIATE_TEST_SUITE_P(
    AppendixA, JsonPatchTest,
    testing::Values(
        Case{"A1AddsAnObjectMember", R"({"foo":"bar"})",
             R"([{"op":"add","path":"/baz","value":"qux"}])", R"({"baz":"qux","foo":"bar"})"},
        Case{"A2AddsAnArrayElement", R"({"foo":["bar","baz"]})",
             R"([{"op":"add","path":"/foo/1","value":"qux"}])", R"({"foo":["bar","qux","baz"]})"},
        Case{"A3RemovesAnObjectMember", R"({"baz":"qux","foo":"bar"})",
             R"([{"op":"remove","path":"/baz"}])", R"({"foo":"bar"})"},
        Case{"A4RemovesAnArrayElement", R"({"foo":["bar","qux","baz"]})",
             R"([{"op":"remove","path":"/foo/1"}])", R"({"foo":["bar","baz"]})"},
        Case{"A5ReplacesAValue", R"({"baz":"qux","foo":"bar"})",
             R"([{"op":"replace","path":"/baz","value":"boo"}])", R"({"baz":"boo","foo":"bar"})"},
        Case{"A6MovesAValue", R"({"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}})",
             R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
             R"({"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}})"},
        Case{"A7MovesAnArrayElement", R"({"foo":["all","grass","cows","eat"]})",
             R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
             R"({"foo":["all","cows","eat","grass"]})"},
        Case{
            "A8TestsWithSuccess", R"({"baz":"qux","foo":["a",2,"c"]})",
            R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}])",
            R"({"baz":"qux","foo":["a",2,"c"]})"},
        Case{"A9TestsWithError", R"({"baz":"qux"})",
             R"([{"op":"test","path":"/baz","value":"bar"}])", nullptr, kUnfit},
        Case{"A10AddsANestedObject", R"({"foo":"bar"})",
             R"([{"op":"add","path":"/child","value":{"grandchild":{}}}])",
             R"({"foo":"bar","child":{"grandchild":{}}})"},
        Case{"A11IgnoresUnknownMembers", R"({"foo":"bar"})",
             R"([{"op":"add","path":"/baz","value":"qux","xyz":123}])",
             R"({"foo":"bar","baz":"qux"})"},
        Case{"A12RefusesAPlaceThatIsNotThere", R"({"foo":"bar"})",
             R"([{"op":"add","path":"/baz/bat","value":"qux"}])", nullptr, kUnfit},
        Case{"A14EscapesTildes", R"({"/":9,"~1":10})",
             R"([{"op":"test","path":"/~01","value":10}])", R"({"/":9,"~1":10})"},
        Case{"A15TellsStringsFromNumbers", R"({"/":9,"~1":10})",
             R"([{"op":"test","path":"/~01","value":"10"}])", nullptr, kUnfit},
        Case{"A16AddsAnArrayAsAnElement", R"({"foo":["bar"]})",
             R"([{"op":"add","path":"/foo/-","value":["abc","def"]}])",
             R"({"foo":["bar",["abc","def"]]})"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Rules, JsonPatchTest,
    testing::Values(
        Case{"CopiesAValue", R"({"a":{"b":1}})", R"([{"op":"copy","from":"/a","path":"/c"}])",
             R"({"a":{"b":1},"c":{"b":1}})"},
        Case{"ReplacesTheWhole", R"({"a":1})", R"([{"op":"replace","path":"","value":[]}])", "[]"},
        Case{"ComparesNumbersByWorth", R"({"a":1})", R"([{"op":"test","path":"/a","value":1.0}])",
             R"({"a":1})"},
        Case{"ComparesMapsWithoutOrder", R"({"a":{"x":1,"y":2}})",
             R"([{"op":"test","path":"/a","value":{"y":2,"x":1}}])", R"({"a":{"x":1,"y":2}})"},
        Case{"RefusesAnIndexPastTheEnd", R"([1])", R"([{"op":"add","path":"/2","value":0}])",
             nullptr, kUnfit},
        Case{"RefusesALeadingZero", R"([1,2])", R"([{"op":"remove","path":"/01"}])", nullptr,
             kUnfit},
        Case{"RefusesToRemoveTheElementPastTheLast", R"([1])", R"([{"op":"remove","path":"/-"}])",
             nullptr, kUnfit},
        Case{"RefusesAMoveIntoItself", R"({"a":{"b":1}})",
             R"([{"op":"move","from":"/a","path":"/a/b"}])", nullptr, kUnfit},
        Case{"RefusesAnUnknownOperation", "{}", R"([{"op":"merge","path":"/a"}])", nullptr,
             kBroken},
        Case{"RefusesAPathWithoutASlash", "{}", R"([{"op":"remove","path":"a"}])", nullptr,
             kBroken},
        Case{"RefusesABareTilde", "{}", R"([{"op":"remove","path":"/a~2"}])", nullptr, kBroken},
        Case{"RefusesAnOperationWithoutValue", "{}", R"([{"op":"add","path":"/a"}])", nullptr,
             kBroken},
        Case{"RefusesWhatIsNoList", "{}", R"({"op":"add"})", nullptr, kBroken}),
    NameOf);

TEST(JsonPatch, RefusesCopiesThatGrowWithoutEnd) {
  Node patch = Node::List();
  for (int i = 0; i < 64; ++i) {
    patch.items.push_back(Read(R"({"op":"copy","from":"/a","path":"/a/-"})"));
  }
  EXPECT_EQ(JsonPatch(Read(R"({"a":["x"]})"), patch).status().code(), kUnfit);
}

}  // namespace
}  // namespace janus::control
