#include "dataplane/gateway/structure/answer_grammar.h"

#include <gtest/gtest.h>

#include "dataplane/gateway/structure/lark.h"
#include "grammar_walk.h"
#include "small_tokenizer.h"
#include "tests/support/contains.h"
#include "tests/support/random.h"
#include "tests/support/random_schema.h"

namespace janus::gateway {
namespace {

using text::Json;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "required": ["a", "b"], "additionalProperties": false,
    "properties": {"a": {"$ref": "#/$defs/digit"}, "b": {"$ref": "#/$defs/digit"}},
    "$defs": {"digit": {"type": "integer", "minimum": 0, "maximum": 9}}}}},
  {"type": "function", "function": {"name": "now"}}])";

class AnswerGrammarTest : public testing::Test {
 protected:
  CompletionRequest Parse(const std::string& more, Endpoint endpoint = Endpoint::kChat) {
    const std::string prompt = endpoint == Endpoint::kChat
                                   ? R"("messages": [{"role": "user", "content": "x"}])"
                                   : R"("prompt": "x")";
    auto parsed = ParseCompletionRequest(endpoint, R"({"model": "m", )" + prompt + more + "}");
    if (const auto* error = std::get_if<RequestError>(&parsed)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    return std::get<CompletionRequest>(std::move(parsed));
  }
  std::string Grammar(const std::string& more) {
    auto made = AnswerGrammar(
        {.tokenizer = walk_.tokenizer(), .chat_text = chat_text_, .chat_template = chat_template_},
        Parse(more));
    if (const auto* error = std::get_if<RequestError>(&made)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    return std::get<std::string>(made);
  }
  bool Accepts(const std::string& more, std::string_view answer) {
    return walk_.Accepts(Grammar(more), answer);
  }

  text::GrammarWalk walk_{text::ByteFallbackTokenizer()};
  ChatTextOptions chat_text_;
  std::string chat_template_;
};

TEST_F(AnswerGrammarTest, IsEmptyWhereNothingIsAsked) {
  EXPECT_EQ(Grammar(""), "");
  EXPECT_EQ(Grammar(R"(, "response_format": {"type": "text"})"), "");
  EXPECT_EQ(Grammar(std::string(R"(, "tools": )") + kTools), "");
}

TEST_F(AnswerGrammarTest, OfJsonHasTheSchema) {
  const std::string object = R"(, "response_format": {"type": "json_object"})";
  EXPECT_TRUE(Accepts(object, R"({"a": [1, null]})"));
  EXPECT_FALSE(Accepts(object, "[1]"));
  for (const std::string given : {R"(, "response_format": {"type": "json_schema", "json_schema":
            {"name": "n", "schema": {"enum": ["x", 7]}}})",
                                  R"(, "structured_outputs": {"json": {"enum": ["x", 7]}})",
                                  R"(, "guided_json": "{\"enum\": [\"x\", 7]}")"}) {
    EXPECT_TRUE(Accepts(given, "7")) << given;
    EXPECT_FALSE(Accepts(given, "8")) << given;
  }
}

TEST_F(AnswerGrammarTest, OfARegexIsForTheWholeAnswer) {
  for (const char* regex : {"^[ab]/c$", "[ab]\\\\/c"}) {
    const std::string given = R"(, "structured_outputs": {"regex": ")" + std::string(regex) + "\"}";
    EXPECT_TRUE(Accepts(given, "b/c")) << regex;
    EXPECT_FALSE(Accepts(given, "b/cc")) << regex;
  }
}

TEST_F(AnswerGrammarTest, OfAChoiceHasItsStrings) {
  const std::string given = R"(, "guided_choice": ["yes", "y\"\n", "\u00e9"])";
  EXPECT_TRUE(Accepts(given, "y\"\n"));
  EXPECT_TRUE(Accepts(given, "\u00e9"));
  EXPECT_FALSE(Accepts(given, "ye"));
}

TEST_F(AnswerGrammarTest, OfAGrammarIsLarkOrGbnf) {
  const std::string lark = R"(, "guided_grammar": "start: \"a\" b+\nb: \"b\"")";
  EXPECT_TRUE(Accepts(lark, "abb"));
  EXPECT_FALSE(Accepts(lark, "a"));
  const std::string gbnf =
      R"(, "structured_outputs": {"grammar": "root ::= sum-of # a sum\nsum-of ::= [0-9]+ (\"+\" [0-9]{1,2})*"})";
  EXPECT_TRUE(Accepts(gbnf, "12+3"));
  EXPECT_FALSE(Accepts(gbnf, "12+345"));
}

TEST_F(AnswerGrammarTest, LeavesReasoningFree) {
  const std::string given = R"(, "guided_choice": ["yes"])";
  EXPECT_FALSE(Accepts(given, "<think>a</think>yes"));
  chat_text_.reads_reasoning = true;
  EXPECT_TRUE(Accepts(given, "<think>a<b\nyes</think>\n\nyes"));
  EXPECT_TRUE(Accepts(given, "yes"));
  EXPECT_FALSE(Accepts(given, "<think>yes"));
  chat_text_.begins_in_reasoning = true;
  EXPECT_TRUE(Accepts(given, "so</think>yes"));
  EXPECT_FALSE(Accepts(given, "yes"));
}

TEST_F(AnswerGrammarTest, OfHarmonyIsInTheFinalChannel) {
  const std::string given = R"(, "guided_choice": ["yes", "no"])";
  chat_text_.is_harmony = true;
  EXPECT_TRUE(Accepts(given, "<|channel|>final<|message|>no"));
  EXPECT_FALSE(Accepts(given, "no"));
  const std::string thinks =
      "<|channel|>analysis<|message|>a<b\nc<|end|><|start|>assistant<|channel|>final<|message|>";
  EXPECT_FALSE(Accepts(given, thinks + "yes"));
  chat_text_.reads_reasoning = true;
  EXPECT_TRUE(Accepts(given, thinks + "yes"));
  EXPECT_FALSE(Accepts(given, thinks + "maybe"));
  EXPECT_TRUE(Accepts(given, "<|channel|>final<|message|>no"));
  chat_text_.begins_in_answer = true;
  EXPECT_TRUE(Accepts(given, "no"));
}

// What a grammar of calls allows is read as calls that fit their schema, in every format.
TEST_F(AnswerGrammarTest, OfACallIsReadAsThatCall) {
  struct Case {
    ToolFormat format;
    std::string chat_template;
  };
  const std::vector<Case> cases = {
      {ToolFormat::kHermes, ""},          {ToolFormat::kGlm, ""},   {ToolFormat::kDeepSeek, ""},
      {ToolFormat::kDeepSeek, "```json"}, {ToolFormat::kKimi, ""},  {ToolFormat::kMistral, ""},
      {ToolFormat::kMistral, "[ARGS]"},   {ToolFormat::kLlama, ""}, {ToolFormat::kLlama4, ""},
      {ToolFormat::kHarmony, ""}};
  const std::string named = R"(, "tool_choice": {"type": "function", "function": {"name": "add"}})";
  for (const Case& one : cases) {
    chat_text_.tools = one.format;
    chat_text_.is_harmony = one.format == ToolFormat::kHarmony;
    chat_template_ = one.chat_template;
    for (const bool is_named : {false, true}) {
      const std::string grammar = Grammar(std::string(R"(, "tools": )") + kTools +
                                          (is_named ? named : R"(, "tool_choice": "required")"));
      size_t most = 0;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const std::optional<std::string> answer = walk_.Draw(grammar, TestSeed() + seed);
        if (!answer) continue;
        ChatText reader(chat_text_);
        ChatText::Delta read = reader.Push(*answer);
        for (ToolCall& call : reader.Finish().calls) read.calls.push_back(std::move(call));
        EXPECT_EQ(read.content, "");
        ASSERT_FALSE(read.calls.empty()) << *answer;
        most = std::max(most, read.calls.size());
        for (const ToolCall& call : read.calls) {
          const Json arguments = Json::parse(call.arguments, nullptr, false);
          ASSERT_TRUE(arguments.is_object()) << *answer;
          if (call.name == "now" && !is_named) continue;
          ASSERT_EQ(call.name, "add") << *answer;
          EXPECT_TRUE(arguments.at("a") <= 9 && arguments.at("b") >= 0) << *answer;
        }
      }
      EXPECT_EQ(most > 1, !is_named && !chat_text_.is_harmony) << "several calls";
    }
  }
}

TEST_F(AnswerGrammarTest, LetsAModelCallAToolInsteadOfAnswering) {
  chat_text_.tools = ToolFormat::kHermes;
  const std::string given =
      std::string(R"(, "response_format": {"type": "json_object"}, "tools": )") + kTools;
  EXPECT_TRUE(Accepts(given, "{}"));
  EXPECT_TRUE(Accepts(given, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
}

TEST(LarkText, NamesSpecialTokensById) {
  const std::string json = [] {
    std::string text = text::kSmallTokenizer;
    for (size_t at = 0; (at = text.find("<s>", at)) != std::string::npos; at += 7) {
      text.replace(at, 3, "<think>");
    }
    return text;
  }();
  const auto tokenizer = text::Tokenizer::FromJson(json, "small").value();
  EXPECT_EQ(LarkText(*tokenizer, "a<think>\"</think>"), R"("a" <[10]> "\"</think>")");
  EXPECT_EQ(LarkText(*tokenizer, ""), R"("")");
}

TEST(LarkOfGbnf, NamesTheLineThatItCannotRead) {
  for (const auto& [gbnf, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"", "no rule"},
           {"root = x", "line 1"},
           {"root ::= \"a\nb ::= c", "line 1"},
           {"root ::= a\na ::= [a", "line 2"},
           {"root ::= (a", "')'"},
           {"root ::= a{x}", "{2,5}"},
           {"root ::= \"\\q\"", "escape"},
           {"root ::= " + std::string(100, '('), "deeply"}}) {
    const auto lark = LarkOfGbnf(gbnf);
    EXPECT_EQ(lark.status().code(), StatusCode::kInvalidArgument) << gbnf;
    EXPECT_TRUE(Contains(lark.status().message(), wanted)) << lark.status().message();
  }
}

}  // namespace
}  // namespace janus::gateway
