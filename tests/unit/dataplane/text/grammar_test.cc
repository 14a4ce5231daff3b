#include "dataplane/text/grammar.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "grammar_walk.h"
#include "small_tokenizer.h"
#include "tests/support/contains.h"
#include "tests/support/random.h"
#include "tests/support/random_schema.h"

namespace janus::text {
namespace {

std::string Lark(const std::string& text) {
  return Json{{"grammars", Json::array({{{"lark_grammar", text}}})}}.dump();
}

std::string Schema(Json schema) {
  schema["x-guidance"] = {{"whitespace_pattern", "[ \\n]{1,2}"}};
  return Json{{"grammars", Json::array({{{"json_schema", std::move(schema)}}})}}.dump();
}

// One token for each byte, and " a", " ", "b", </s>.
class GrammarTest : public testing::Test {
 protected:
  GrammarReader Start(const std::string& grammar) { return walk_.Start(grammar); }
  std::vector<int32_t> Allowed(GrammarReader& reader) { return walk_.Allowed(reader); }
  // Byte by byte.
  static GrammarState Take(GrammarReader& reader, std::string_view text) {
    GrammarState state = GrammarState::kOpen;
    for (const char c : text) {
      const auto id = static_cast<int32_t>(static_cast<uint8_t>(c));
      state = reader.Consume(std::span(&id, 1)).value();
    }
    return state;
  }

  GrammarWalk walk_{ByteFallbackTokenizer()};
};

TEST_F(GrammarTest, AllowsWhatMayComeNextAndNothingElse) {
  GrammarReader reader = Start(Lark("start: /b a?/"));
  EXPECT_EQ(Allowed(reader), (std::vector<int32_t>{'b', 258}));
  EXPECT_EQ(Take(reader, "b"), GrammarState::kOpen);
  EXPECT_EQ(Allowed(reader), (std::vector<int32_t>{' ', 256, 257}));  // " ", "▁a", "▁"
  EXPECT_EQ(Take(reader, " "), GrammarState::kMayEnd);
  EXPECT_EQ(Allowed(reader), (std::vector<int32_t>{'a'}));
  EXPECT_EQ(Take(reader, "a"), GrammarState::kComplete);
  EXPECT_EQ(Allowed(reader), (std::vector<int32_t>{}));
}

TEST_F(GrammarTest, AllowsASpecialTokenOnlyByItsId) {
  GrammarReader by_text = Start(Lark(R"(start: "</s>")"));
  EXPECT_EQ(Allowed(by_text), (std::vector<int32_t>{'<'}));
  GrammarReader by_id = Start(Lark("start: <[259]>"));
  EXPECT_EQ(Allowed(by_id), (std::vector<int32_t>{259}));
  const int32_t end = 259;
  EXPECT_EQ(by_id.Consume(std::span(&end, 1)).value(), GrammarState::kComplete);
}

TEST_F(GrammarTest, RefusesATokenThatIsNotAllowed) {
  GrammarReader reader = Start(Lark(R"(start: "ab")"));
  const int32_t wrong = 'x', unknown = 260;
  EXPECT_EQ(reader.Consume(std::span(&wrong, 1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Start(Lark(R"(start: "ab")")).Consume(std::span(&unknown, 1)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(GrammarTest, ReadersOfOneGrammarAreApart) {
  const auto grammar = walk_.compiler()->Compile(Lark(R"(start: "ab" | "cd")")).value();
  GrammarReader one = grammar->Start().value(), other = grammar->Start().value();
  EXPECT_EQ(Take(one, "a"), GrammarState::kOpen);
  EXPECT_EQ(Allowed(other), (std::vector<int32_t>{'a', 'c'}));
  EXPECT_EQ(Allowed(one), (std::vector<int32_t>{'b', 258}));
}

// A replay gives all tokens at once, and no mask between them.
TEST_F(GrammarTest, TakesTokensAtOnceAsOneByOne) {
  const std::string grammar = Schema({{"type", "object"}});
  const std::string text = R"({"key": [1, {"a": "b")";
  GrammarReader one = Start(grammar), whole = Start(grammar);
  for (const char c : text) {
    Allowed(one);
    Take(one, std::string_view(&c, 1));
  }
  const std::vector<int32_t> tokens(text.begin(), text.end());
  ASSERT_TRUE(whole.Consume(tokens).ok());
  EXPECT_EQ(Allowed(one), Allowed(whole));
}

TEST_F(GrammarTest, RefusesWhatItCannotCompileWithTheReason) {
  const auto message = [&](const std::string& grammar) {
    const auto compiled = walk_.compiler()->Compile(grammar);
    EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidArgument);
    return std::string(compiled.status().message());
  };
  EXPECT_TRUE(Contains(message("{"), "not a grammar"));
  EXPECT_TRUE(Contains(message(Lark("start: nothing")), "nothing"));
  EXPECT_TRUE(Contains(message(Schema({{"type", "sphere"}})), "sphere"));
  EXPECT_TRUE(Contains(message(std::string(GrammarCompiler::kMostBytes + 1, ' ')), "at most"));
  EXPECT_TRUE(Contains(message(Schema({{"$ref", "https://example.org/x.json"}})), "ref"));
  EXPECT_NE(message(Schema({{"allOf", Json::array({{{"type", "string"}}, {{"type", "null"}}})}})),
            "");
}

TEST_F(GrammarTest, FollowsAnObjectOfManyOptionalProperties) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 1000; ++i) schema["properties"]["p" + std::to_string(i)] = {{"const", i}};
  EXPECT_TRUE(walk_.Accepts(Schema(schema), R"({"p3": 3, "p999": 999})"));
}

// JANUS_SCHEMAS=10000 tries more.
TEST_F(GrammarTest, EveryRandomAnswerFitsItsRandomSchema) {
  const char* const more = std::getenv("JANUS_SCHEMAS");
  const int schemas = more != nullptr ? std::atoi(more) : 150;
  int ended = 0;
  for (int i = 0; i < schemas; ++i) {
    const uint64_t seed = TestSeed() + static_cast<uint64_t>(i);
    const Json schema = RandomSchema(seed).Draw();
    const std::optional<std::string> text = walk_.Draw(Schema(schema), seed);
    if (!text) continue;
    ++ended;
    const Json value = Json::parse(*text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << *text;
    ASSERT_TRUE(Fits(schema, value)) << schema.dump() << "\n" << *text;
  }
  EXPECT_GT(ended, schemas * 9 / 10);
}

}  // namespace
}  // namespace janus::text
