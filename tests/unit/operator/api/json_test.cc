#include "operator/api/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "operator/api/yaml.h"
#include "tests/support/contains.h"

namespace janus::control {
namespace {

TEST(Json, EveryKindOfValueComesBackAsItWas) {
  const std::string text =
      R"({"text":"a\"\\\n\u0001é","empty":{},"list":[1,-2,[],null,true,false],)"
      R"("float":1.50e3,"large":18446744073709551615,"small":-9223372036854775808})";
  const Result<Node> read = ParseJson(text, "test");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->Find("text")->text, "a\"\\\n\x01é");
  EXPECT_EQ(read->Find("small")->integer, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(read->Find("large")->kind, Node::Kind::kFloat);
  EXPECT_EQ(read->Find("float")->text, "1.50e3");
  EXPECT_EQ(WriteJson(*read), text);
  EXPECT_EQ(*ParseJson(WriteJson(*read), "again"), *read);
}

TEST(Json, RefusesWhatIsNoOneValue) {
  for (const std::string_view text :
       {"", "{", "[1,]", "{} {}", "{\"a\":1,\"a\":2}", "\"\xff\"", "01", "{\"a\" 1}", "nul"}) {
    const Result<Node> read = ParseJson(text, "reply");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(Contains(read.status().message(), "reply: ")) << text;
  }
  EXPECT_TRUE(Contains(ParseJson(R"({"b":0,"a":1,"a":2})", "x").status().message(), "'a'"));
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(200), "x").ok());
  EXPECT_TRUE(Contains(ParseJson(nested(201), "x").status().message(), "200 levels"));
}

TEST(Json, WritesYamlsNumbersAsJsonHasThem) {
  const Result<Node> yaml = ParseYaml("[.5, +1.5, 1., 2e3, .inf, .nan, 007]", "test");
  ASSERT_TRUE(yaml.ok()) << yaml.status().ToString();
  EXPECT_EQ(WriteJson(*yaml), "[0.5,1.5,1,2e3,null,null,7]");
}

}  // namespace
}  // namespace janus::control
