#include "dataplane/gateway/chat/chat_text.h"

#include <gtest/gtest.h>

namespace janus::gateway {
namespace {

struct Whole {
  std::string reasoning, content;
  std::vector<ToolCall> calls;
  friend bool operator==(const Whole&, const Whole&) = default;
};
void PrintTo(const Whole& whole, std::ostream* out) {
  *out << "reasoning '" << whole.reasoning << "' content '" << whole.content << "'";
  for (const ToolCall& call : whole.calls) *out << " " << call.name << call.arguments;
}

// Reads in pieces of `bytes`; the result does not depend on their size.
Whole Read(const ChatTextOptions& options, std::string_view text, size_t bytes) {
  ChatText chat(options);
  Whole whole;
  const auto add = [&](ChatText::Delta delta) {
    whole.reasoning += delta.reasoning;
    whole.content += delta.content;
    whole.calls.insert(whole.calls.end(), delta.calls.begin(), delta.calls.end());
  };
  for (size_t at = 0; at < text.size(); at += bytes) add(chat.Push(text.substr(at, bytes)));
  add(chat.Finish());
  return whole;
}

struct Case {
  const char* name;
  ChatTextOptions options;
  const char* text;
  Whole want;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class ChatTextReads : public testing::TestWithParam<Case> {};

TEST_P(ChatTextReads, TheSameInPiecesOfAnySize) {
  const Case& c = GetParam();
  for (const size_t bytes : {1, 2, 3, 7, 1000}) {
    EXPECT_EQ(Read(c.options, c.text, bytes), c.want) << bytes;
  }
}

constexpr ChatTextOptions Harmony(bool thinks, bool calls, bool begins_in_answer = false) {
  return {.reads_reasoning = thinks,
          .tools = calls ? ToolFormat::kHarmony : ToolFormat::kNone,
          .is_harmony = true,
          .begins_in_answer = begins_in_answer};
}
constexpr ChatTextOptions kThinks{.reads_reasoning = true};
constexpr ChatTextOptions Tools(ToolFormat format, bool thinks = false) {
  return {.reads_reasoning = thinks, .tools = format};
}

INSTANTIATE_TEST_SUITE_P(
    All, ChatTextReads,
    testing::Values(
        Case{"PlainText", {}, "a <think> b <tool_call>", {"", "a <think> b <tool_call>", {}}},
        Case{"Reasoning", kThinks, "<think>\nhm</think>\n\nSo.", {"\nhm", "So.", {}}},
        Case{"ReasoningThatThePromptBegan",
             {.reads_reasoning = true, .begins_in_reasoning = true},
             "hm</think>So.",
             {"hm", "So.", {}}},
        Case{"ReasoningWithoutEnd", kThinks, "<think>hm </thi", {"hm </thi", "", {}}},
        Case{"NoReasoning", kThinks, "Just <think>", {"", "Just <think>", {}}},
        Case{"Hermes",
             Tools(ToolFormat::kHermes),
             "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": [2]}}\n"
             "</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call>",
             {"", "Let me see.\n", {{"f", R"({"z":1,"a":[2]})"}, {"g", "{}"}}}},
        Case{"HermesBehindReasoning",
             Tools(ToolFormat::kHermes, true),
             "<think>x</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
             {"x", "", {{"f", "{}"}}}},
        Case{"HermesCutShort",
             Tools(ToolFormat::kHermes),
             "<tool_call>{\"name\": \"f\", \"argu",
             {"", "<tool_call>{\"name\": \"f\", \"argu", {}}},
        Case{"HermesThatIsNoJson",
             Tools(ToolFormat::kHermes),
             "<tool_call>oops</tool_call> so",
             {"", "<tool_call>oops</tool_call> so", {}}},
        Case{"Glm",
             Tools(ToolFormat::kGlm),
             "<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Bath</arg_value>\n"
             "<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
             {"", "", {{"f", R"({"city":"Bath","n":3})"}}}},
        Case{"DeepSeekV3",
             Tools(ToolFormat::kDeepSeek),
             "ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
             "{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n"
             "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
             {"", "ok", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}},
        Case{"DeepSeekV31",
             Tools(ToolFormat::kDeepSeek),
             "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
             "1}<｜tool▁call▁end｜>"
             "<｜tool▁calls▁end｜>",
             {"", "", {{"f", "{\"a\": 1}"}}}},
        Case{"Kimi",
             Tools(ToolFormat::kKimi),
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
             "<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
             {"", "", {{"f", "{\"a\": 1}"}}}},
        Case{"MistralList",
             Tools(ToolFormat::kMistral),
             "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\"}]",
             {"", "", {{"f", R"({"a":1})"}, {"g", "{}"}}}},
        Case{"MistralNames",
             Tools(ToolFormat::kMistral),
             "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g{}",
             {"", "", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}},
        Case{"Llama",
             Tools(ToolFormat::kLlama),
             "{\"name\": \"f\", \"parameters\": {\"a\": \"x;y\"}}; {\"name\": \"g\"}",
             {"", "", {{"f", R"({"a":"x;y"})"}, {"g", "{}"}}}},
        Case{"LlamaWithItsTag",
             Tools(ToolFormat::kLlama),
             "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
             {"", "", {{"f", "{}"}}}},
        Case{
            "LlamaThatIsText", Tools(ToolFormat::kLlama), "{ is a brace", {"", "{ is a brace", {}}},
        Case{"Llama4",
             Tools(ToolFormat::kLlama4),
             "{\"name\": \"f\", \"parameters\": {\"a\": \"}{\"}}{\"name\": \"g\"}",
             {"", "", {{"f", R"({"a":"}{"})"}, {"g", "{}"}}}},
        Case{"Llama4BetweenItsMarkers",
             Tools(ToolFormat::kLlama4),
             "I look.<|python_start|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": "
             "\"g\"}<|python_end|>",
             {"", "I look.", {{"f", "{}"}, {"g", "{}"}}}},
        Case{"Llama4BehindItsMarkers",
             Tools(ToolFormat::kLlama4),
             "<|python_start|>I look.<|python_end|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
             {"", "I look.", {{"f", R"({"a":1})"}}}},
        Case{"Llama4WithEmptyMarkers",
             Tools(ToolFormat::kLlama4),
             "<|python_start|><|python_end|>\n{\"name\": \"f\"}",
             {"", "", {{"f", "{}"}}}},
        Case{"Llama4WithTextBehindItsMarkers",
             Tools(ToolFormat::kLlama4),
             "<|python_start|>1 + 1<|python_end|> is {2}",
             {"", "1 + 1 is {2}", {}}},
        Case{"Llama4ThatIsCutShort",
             Tools(ToolFormat::kLlama4),
             "{\"name\": \"f\"}{\"name\": ",
             {"", "{\"name\": \"f\"}{\"name\": ", {}}},
        Case{"Harmony",
             Harmony(true, true),
             "<|channel|>analysis<|message|>hm <b><|end|><|start|>assistant<|channel|>final"
             "<|message|>So.<|return|>",
             {"hm <b>", "So.", {}}},
        Case{"HarmonyCall",
             Harmony(true, true),
             "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
             {"x", "", {{"f", "{\"a\": 1}"}}}},
        Case{"HarmonyCallWithTheRecipientFirst",
             Harmony(true, true),
             " to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}",
             {"", "", {{"f", "{\"a\": 1}"}}}},
        Case{"HarmonyCallsBehindAPreamble",
             Harmony(true, true),
             "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary"
             " to=functions.f<|message|>{}<|call|><|start|>assistant to=functions.g<|channel|>"
             "commentary<|message|>{}<|call|>",
             {"", "I look.", {{"f", "{}"}, {"g", "{}"}}}},
        Case{"HarmonyCallThatIsNoJson",
             Harmony(true, true),
             "<|channel|>commentary to=functions.f<|message|>oops<|call|>",
             {"", "oops", {}}},
        Case{"HarmonyCallCutShort",
             Harmony(true, true),
             "<|channel|>commentary to=functions.f<|message|>{\"a\": <|ca",
             {"", "{\"a\": <|ca", {}}},
        Case{"HarmonyCallsThatAreNotRead",
             Harmony(true, false),
             "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
             {"", "{}", {}}},
        Case{"HarmonyToolsOfItsOwnAreReasoning",
             Harmony(true, true),
             "<|channel|>analysis to=python code<|message|>1+1<|call|><|start|>assistant"
             "<|channel|>analysis<|message|>2<|end|>",
             {"1+1\n2", "", {}}},
        Case{"HarmonyReasoningThatIsNotRead",
             Harmony(false, true),
             "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>y",
             {"", "x\ny", {}}},
        Case{"HarmonyMessageWithoutEnd",
             Harmony(true, true),
             "<|channel|>analysis<|message|>x<|start|>assistant<|channel|>final<|message|>y",
             {"x", "y", {}}},
        Case{"HarmonyHeaderCutShort", Harmony(true, true), "<|channel|>anal", {"", "", {}}},
        Case{"HarmonyWithoutHeader",
             Harmony(true, true),
             "<b> to=you <|message|> all<|end|> and more",
             {"", "<b> to=you <|message|> all\n and more", {}}},
        Case{"HarmonyShortText", Harmony(true, true), "to", {"", "to", {}}},
        Case{"HarmonyThatGoesOn",
             Harmony(true, true, true),
             " to the end<|end|><|start|>assistant<|channel|>analysis<|message|>x",
             {"x", " to the end", {}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ToolFormat, IsFoundByTheTemplatesMarkers) {
  EXPECT_EQ(ToolFormatOf("{{ '<tool_call>' }}"), ToolFormat::kHermes);
  EXPECT_EQ(ToolFormatOf("<tool_call><arg_key>"), ToolFormat::kGlm);
  EXPECT_EQ(ToolFormatOf("[TOOL_CALLS]"), ToolFormat::kMistral);
  EXPECT_EQ(ToolFormatOf("<|start|>assistant<|channel|>"), ToolFormat::kHarmony);
  EXPECT_EQ(ToolFormatOf("{{ '<|python_tag|>' }}"), ToolFormat::kLlama);
  EXPECT_EQ(ToolFormatOf("{{ '<|python_start|>' }}"), ToolFormat::kLlama4);
  EXPECT_EQ(ToolFormatOf("{{ messages }}"), ToolFormat::kNone);
  EXPECT_EQ(ParseToolFormat("deepseek"), ToolFormat::kDeepSeek);
  EXPECT_EQ(ParseToolFormat("other"), std::nullopt);
}

}  // namespace
}  // namespace janus::gateway
