#include "operator/api/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "operator/api/field_filter.h"
#include "operator/api/yaml.h"
#include "tests/support/contains.h"
#include "tests/support/random.h"

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

TEST(Json, IsWrittenInLinesForPeople) {
  const Node read = *ParseJson(R"({"a":[1,{"b":"x"}],"c":{},"d":[]})", "test");
  EXPECT_EQ(WriteJsonLines(read), R"({
  "a": [
    1,
    {
      "b": "x"
    }
  ],
  "c": {},
  "d": []
}
)");
  EXPECT_EQ(WriteJsonLines(Node::Integer(1)), "1\n");
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

// `text` with a few bytes changed, removed or doubled.
std::string Mutated(std::string text, std::minstd_rand& random) {
  constexpr std::string_view kBytes = "{}[]\",:\\u0123456789abcdefDd-+.eE \n\t\x01\xc3\xa9\xff";
  for (int i = static_cast<int>(random() % 4); i >= 0; --i) {
    const size_t at = random() % text.size();
    const char byte = kBytes[random() % kBytes.size()];
    switch (random() % 3) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        if (text.size() > 1) text.erase(at, 1 + random() % 3);
    }
    if (text.empty()) text = " ";
  }
  return text;
}

TEST(Json, JudgesTextsAsAnotherReaderDoes) {
  std::minstd_rand random(TestSeed());
  int taken = 0;
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = Mutated(
        R"({"a\u00e9\ud83d\ude00":"\"\\\/\b\f\n\r\té","b":[-0,12,-3.50e-2,1E+3,18446744073709551616],)"
        R"("c":{"d":null,"e":[true,false,{}, [ ]]} , "f" : "" })",
        random);
    const Result<Node> read = ParseJson(text, "x");
    // nlohmann accepts repeated names.
    const bool is_twice = !read.ok() && Contains(read.status().message(), "twice");
    const auto theirs = nlohmann::json::parse(text, nullptr, false);
    ASSERT_EQ(read.ok(), !theirs.is_discarded() && !is_twice) << text;
    (read.ok() ? taken : refused) += 1;
    if (read.ok()) {
      const std::string written = WriteJson(*read);
      ASSERT_EQ(nlohmann::json::parse(written), theirs) << text << "\n" << written;
    }
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Json, OfAPartOnlyWhatIsKeptIsRead) {
  const FieldFilter filter({"a.b"});
  const auto read = [&](const std::string& text) {
    const Result<Node> out = ParseJson(text, "x", {"items", &filter});
    return out.ok() ? WriteJson(*out) : out.status().message();
  };
  // Reading with the filter gives the same as filtering the whole.
  EXPECT_EQ(read(R"({"more":{"a":{"x":1}},"items":[{"a":{"x":"}]\"","b":[1,{"y":2}],"z":[{}]},)"
                 R"("c":[[-1.5e3]]},{"a":7},{"n":null,"t":true,"f":false}]})"),
            R"({"more":{"a":{"x":1}},"items":[{"a":{"b":[1,{"y":2}]}},{"a":7},{}]})");
  EXPECT_EQ(read(R"({"other":[{"q":1}]})"), R"({"other":[{"q":1}]})");
  EXPECT_EQ(read(R"([{"items":{"q":1}}])"), R"([{"items":{"q":1}}])");
  for (const std::string_view broken :
       {R"({"items":[{"q":[}]})", R"({"items":[{"q":"x]})", R"({"items":[{"q":01}]})",
        R"({"items":[{"q" 1}]})", R"({"items":[{"q":1}])", R"({"items":[{"q":nul}]})"}) {
    EXPECT_FALSE(ParseJson(broken, "x", {"items", &filter}).ok()) << broken;
  }
  const std::string deep = std::string(199, '[') + std::string(199, ']');
  EXPECT_FALSE(ParseJson(R"({"items":{"q":)" + deep + "}}", "x", {"items", &filter}).ok());
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(200), "x").ok());
  EXPECT_TRUE(Contains(ParseJson(nested(201), "x").status().message(), "200 levels"));
}

TEST(Json, WritesYamlsNumbersAsJsonHasThem) {
  const Result<Node> yaml = ParseYaml("[.5, +1.5, 1., 2e3, 007]", "test");
  ASSERT_TRUE(yaml.ok()) << yaml.status().ToString();
  EXPECT_EQ(WriteJson(*yaml), "[0.5,1.5,1,2000,7]");
}

}  // namespace
}  // namespace janus::control
