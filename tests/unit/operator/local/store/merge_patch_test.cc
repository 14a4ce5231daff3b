#include "operator/local/store/merge_patch.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

struct Case {
  const char* original;
  const char* patch;
  const char* result;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.original << " patched with " << c.patch;
}

Node Read(std::string_view json) {
  return *ParseJson(json, "test");
}

class MergePatchTest : public testing::TestWithParam<Case> {};

TEST_P(MergePatchTest, DoesAsTheRfcsExampleShows) {
  const Node patched = MergePatch(Read(GetParam().original), Read(GetParam().patch));
  EXPECT_TRUE(IsSameJson(patched, Read(GetParam().result))) << WriteJson(patched);
}

// RFC 7386, appendix A.
INSTANTIATE_TEST_SUITE_P(
    AppendixA, MergePatchTest,
    testing::Values(Case{R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
                    Case{R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
                    Case{R"({"a":"b"})", R"({"a":null})", R"({})"},
                    Case{R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
                    Case{R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
                    Case{R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
                    Case{R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
                    Case{R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
                    Case{R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
                    Case{R"({"a":"b"})", R"(["c"])", R"(["c"])"},
                    Case{R"({"a":"foo"})", R"(null)", R"(null)"},
                    Case{R"({"a":"foo"})", R"("bar")", R"("bar")"},
                    Case{R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
                    Case{R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
                    Case{R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"}));

}  // namespace
}  // namespace janus::control
