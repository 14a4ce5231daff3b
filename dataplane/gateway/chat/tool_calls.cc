#include "dataplane/gateway/chat/tool_calls.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/function_ref.h"

namespace janus::gateway {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n";

constexpr std::string_view kDeepSeekBegin = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kDeepSeekEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kDeepSeekCall = "<｜tool▁call▁begin｜>";
constexpr std::string_view kDeepSeekCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";

constexpr auto kNames = std::to_array<std::pair<std::string_view, ToolFormat>>({
    {"none", ToolFormat::kNone},
    {"hermes", ToolFormat::kHermes},
    {"glm", ToolFormat::kGlm},
    {"deepseek", ToolFormat::kDeepSeek},
    {"kimi", ToolFormat::kKimi},
    {"harmony", ToolFormat::kHarmony},
    {"mistral", ToolFormat::kMistral},
    {"llama", ToolFormat::kLlama},
    {"llama4", ToolFormat::kLlama4},
});

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The first character of JSON outside of strings for which `is_found` returns true; npos: none.
size_t FindOutsideStrings(std::string_view text, FunctionRef<bool(char)> is_found) {
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (!in_string) {
      if (is_found(c)) return i;
    } else if (c == '\\') {
      ++i;
    }
  }
  return text.npos;
}

// The depth limit avoids deep recursion; objects in real answers are shallow.
Json Parsed(std::string_view text) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  const size_t too_deep = FindOutsideStrings(text, [&](char c) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    return depth > kMostDepth;
  });
  if (too_deep != text.npos) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// {"name": ..., "arguments" or "parameters": an object, or one as a string}
std::optional<ToolCall> CallOf(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  ToolCall call{.name = name->get<std::string>(), .arguments = "{}"};
  for (const char* field : {"arguments", "parameters"}) {
    const auto found = json.find(field);
    if (found == json.end() || found->is_null()) continue;
    call.arguments = found->is_string() ? found->get<std::string>() : Dump(*found);
    break;
  }
  return call;
}

std::vector<ToolCall> OneOrMany(const Json& json) {
  std::vector<ToolCall> calls;
  const Json list = json.is_array() ? json : Json::array({json});
  for (const Json& one : list) {
    std::optional<ToolCall> call = CallOf(one);
    if (!call) return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

// Removes and returns the part of `text` before `marker`, and drops the marker; without a marker,
// all of it.
std::string_view Take(std::string_view* text, std::string_view marker) {
  const size_t at = text->find(marker);
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(at == text->npos ? text->size() : at + marker.size());
  return part;
}

// A JSON value if `text` is JSON, otherwise a string.
Json ValueOf(std::string_view text) {
  Json value = Parsed(text);
  return value.is_discarded() ? Json(std::string(text)) : value;
}

std::vector<ToolCall> ReadGlm(std::string_view body) {
  const std::string_view name = Trimmed(body.substr(0, body.find("<arg_key>")));
  if (name.empty()) return {};
  Json arguments = Json::object();
  for (std::string_view rest = body; rest.find("<arg_key>") != rest.npos;) {
    Take(&rest, "<arg_key>");
    const std::string key(Trimmed(Take(&rest, "</arg_key>")));
    Take(&rest, "<arg_value>");
    arguments[key] = ValueOf(Take(&rest, "</arg_value>"));
  }
  return {{.name = std::string(name), .arguments = Dump(arguments)}};
}

// "function<sep>name\n```json\n{...}\n```" of V3 and R1, "name<sep>{...}" of V3.1.
std::optional<ToolCall> DeepSeekCall(std::string_view text) {
  const std::string_view first = Trimmed(Take(&text, kDeepSeekSeparator));
  const size_t fence = text.find("```");
  if (fence == text.npos) {
    const std::string_view arguments = Trimmed(text);
    if (first.empty() || !Parsed(arguments).is_object()) return std::nullopt;
    return ToolCall{.name = std::string(first), .arguments = std::string(arguments)};
  }
  const std::string_view name = Trimmed(text.substr(0, fence));
  text.remove_prefix(fence + 3);
  if (text.starts_with("json")) text.remove_prefix(4);
  const std::string_view arguments = Trimmed(text.substr(0, text.rfind("```")));
  if (name.empty() || !Parsed(arguments).is_object()) return std::nullopt;
  return ToolCall{.name = std::string(name), .arguments = std::string(arguments)};
}

std::vector<ToolCall> ReadDeepSeek(std::string_view body) {
  std::vector<ToolCall> calls;
  while (body.find(kDeepSeekCall) != body.npos) {
    Take(&body, kDeepSeekCall);
    std::optional<ToolCall> call = DeepSeekCall(Take(&body, kDeepSeekCallEnd));
    if (!call) return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

std::vector<ToolCall> ReadKimi(std::string_view body) {
  std::vector<ToolCall> calls;
  while (body.find("<|tool_call_begin|>") != body.npos) {
    Take(&body, "<|tool_call_begin|>");
    std::string_view call = Take(&body, "<|tool_call_end|>");
    // "functions.name:0"
    std::string_view name = Trimmed(Take(&call, "<|tool_call_argument_begin|>"));
    if (name.starts_with("functions.")) name.remove_prefix(10);
    name = name.substr(0, name.rfind(':'));
    const std::string_view arguments = Trimmed(call);
    if (name.empty() || !Parsed(arguments).is_object()) return {};
    calls.push_back({.name = std::string(name), .arguments = std::string(arguments)});
  }
  return calls;
}

// The older tokenizers write a list, the newer ones "name[ARGS]{...}" or "name{...}" with a
// [TOOL_CALLS] before each further call.
std::vector<ToolCall> ReadMistral(std::string_view body) {
  const std::string_view text = Trimmed(body);
  if (text.starts_with('[')) return OneOrMany(Parsed(text));
  std::vector<ToolCall> calls;
  while (!Trimmed(body).empty()) {
    std::string_view call = Take(&body, "[TOOL_CALLS]");
    const size_t brace = call.find('{');
    if (brace == call.npos) return {};
    std::string_view name = call.substr(0, brace);
    name = Trimmed(name.substr(0, name.find('[')));
    const std::string_view arguments = Trimmed(call.substr(brace));
    if (name.empty() || !Parsed(arguments).is_object()) return {};
    calls.push_back({.name = std::string(name), .arguments = std::string(arguments)});
  }
  return calls;
}

// Several calls are separated by ';'.
std::vector<ToolCall> ReadLlama(std::string_view body) {
  std::vector<ToolCall> calls;
  while (!Trimmed(body).empty()) {
    std::string_view rest = body;
    Json json = Parsed(Trimmed(body));
    if (json.is_discarded()) {
      // Find the first ';' behind which a whole object ends.
      size_t at = body.find(';');
      while (at != body.npos && json.is_discarded()) {
        json = Parsed(Trimmed(body.substr(0, at)));
        rest = body.substr(at + 1);
        if (json.is_discarded()) at = body.find(';', at + 1);
      }
      if (json.is_discarded()) return {};
      body = rest;
    } else {
      body = {};
    }
    std::optional<ToolCall> call = CallOf(json);
    if (!call) return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

// The length of the object of JSON at the beginning of `text`; npos: it does not end.
size_t EndOfObject(std::string_view text) {
  int depth = 0;
  const size_t end = FindOutsideStrings(text, [&](char c) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    return depth == 0;
  });
  return end == text.npos ? end : end + 1;
}

// Objects with any separator of lists between them, or none.
std::vector<ToolCall> ReadLlama4(std::string_view body) {
  constexpr std::string_view kSeparators = " \t\r\n;,";
  if (Trimmed(body).starts_with('[')) return OneOrMany(Parsed(Trimmed(body)));
  std::vector<ToolCall> calls;
  while (true) {
    const size_t first = body.find_first_not_of(kSeparators);
    if (first == body.npos) return calls;
    body.remove_prefix(first);
    const size_t size = EndOfObject(body);
    if (size == body.npos) return {};
    std::optional<ToolCall> call = CallOf(Parsed(body.substr(0, size)));
    if (!call) return {};
    calls.push_back(*std::move(call));
    body.remove_prefix(size);
  }
}

}  // namespace

std::optional<ToolFormat> ParseToolFormat(std::string_view name) {
  for (const auto& [known, format] : kNames) {
    if (known == name) return format;
  }
  return std::nullopt;
}

ToolFormat ToolFormatOf(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (has(kDeepSeekBegin)) return ToolFormat::kDeepSeek;
  if (has("<|tool_calls_section_begin|>")) return ToolFormat::kKimi;
  if (has("<|channel|>")) return ToolFormat::kHarmony;
  if (has("[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (has("<arg_key>")) return ToolFormat::kGlm;
  if (has("<tool_call>")) return ToolFormat::kHermes;
  if (has("<|python_start|>")) return ToolFormat::kLlama4;
  return has("<|python_tag|>") ? ToolFormat::kLlama : ToolFormat::kNone;
}

bool IsJsonObject(std::string_view text) {
  return Parsed(Trimmed(text)).is_object();
}

std::vector<ToolCall> ReadToolCalls(ToolFormat format, std::string_view body) {
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kHarmony:
      return {};
    case ToolFormat::kHermes:
      return OneOrMany(Parsed(Trimmed(body)));
    case ToolFormat::kGlm:
      return ReadGlm(body);
    case ToolFormat::kDeepSeek:
      return ReadDeepSeek(body);
    case ToolFormat::kKimi:
      return ReadKimi(body);
    case ToolFormat::kMistral:
      return ReadMistral(body);
    case ToolFormat::kLlama:
      return ReadLlama(body);
    case ToolFormat::kLlama4:
      return ReadLlama4(body);
  }
  return {};
}

ToolMarkers MarkersOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kHarmony:
      return {};
    case ToolFormat::kHermes:
    case ToolFormat::kGlm:
      return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kDeepSeek:
      return {std::string(kDeepSeekBegin), std::string(kDeepSeekEnd)};
    case ToolFormat::kKimi:
      return {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"};
    case ToolFormat::kMistral:
      return {"[TOOL_CALLS]", ""};
    case ToolFormat::kLlama:
      return {"<|python_tag|>", ""};
    case ToolFormat::kLlama4:
      return {"<|python_start|>", "<|python_end|>"};
  }
  return {};
}

}  // namespace janus::gateway
