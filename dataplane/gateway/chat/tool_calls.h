#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace janus::gateway {

// How a model writes tool calls, named after the models.
enum class ToolFormat : uint8_t {
  kNone,
  kHermes,  // Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  kGlm,     // <tool_call>name <arg_key>k</arg_key><arg_value>v</arg_value></tool_call>
  kDeepSeek,  // <｜tool▁calls▁begin｜>, calls with <｜tool▁sep｜> between name and arguments
  kKimi,      // <|tool_calls_section_begin|>, likewise
  kMistral,  // [TOOL_CALLS] to the end: a list, or name[ARGS]{...}
  kLlama,    // <|python_tag|> to the end, or all of the answer: {"name": ..., "parameters": {...}}
  kHarmony,  // gpt-oss: <|channel|>commentary to=functions.name<|message|>{...} (harmony_text.h)
  // Objects as kLlama's, one after the other: all of the answer, or between <|python_start|> and
  // <|python_end|>, or behind that.
  kLlama4,
};

// Nothing: unknown name. Names are those of the enumeration in small letters, and "none".
std::optional<ToolFormat> ParseToolFormat(std::string_view name);
// Detected by the markers that a chat template writes itself. kNone: no known marker.
ToolFormat ToolFormatOf(std::string_view chat_template);

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// Whether the text is an object of JSON that is not nested too deeply.
bool IsJsonObject(std::string_view text);

// Reads the text between the markers of calls. Empty: it is no call in this format, but text.
// HarmonyText reads kHarmony, which has no markers around calls alone.
std::vector<ToolCall> ReadToolCalls(ToolFormat format, std::string_view body);

// The markers around calls; an empty `end` means the end of the answer.
struct ToolMarkers {
  std::string begin;
  std::string end;
};
ToolMarkers MarkersOf(ToolFormat format);

}  // namespace janus::gateway
