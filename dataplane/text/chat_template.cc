#include "dataplane/text/chat_template.h"

#include <nlohmann/json.hpp>

#include "dataplane/text/text_buffer.h"

namespace janus::text {

namespace {

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

size_t FindWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordCharacter(text[at - 1]);
    if (begins && (end == text.size() || !IsWordCharacter(text[end]))) return at;
  }
  return text.npos;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kAround = " \t\r\n-+";
  const size_t first = text.find_first_not_of(kAround);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kAround) + 1 - first);
}

// {% for part in message['content'] %}, {% for item in m.content %}, {% for c in content %}
bool HasLoopOverContent(std::string_view source) {
  for (size_t at = source.find("{%"); at != source.npos; at = source.find("{%", at + 2)) {
    const size_t end = source.find("%}", at);
    if (end == source.npos) return false;
    const std::string_view tag = Trimmed(source.substr(at + 2, end - at - 2));
    const size_t in = FindWord(tag, "in");
    if (!tag.starts_with("for ") || in == tag.npos) continue;
    const std::string_view list = Trimmed(tag.substr(in + 2));
    if (list == "content" || list.ends_with(".content") || list.ends_with("['content']") ||
        list.ends_with("[\"content\"]")) {
      return true;
    }
  }
  return false;
}

}  // namespace

ChatTemplate::ChatTemplate(JanusTemplate* handle, std::string_view source, std::string head,
                           ChatTemplateLimits limits)
    : handle_(handle),
      source_(source),
      head_(std::move(head)),
      loops_over_content_(HasLoopOverContent(source)),
      limits_(limits) {}

bool ChatTemplate::Mentions(std::string_view word) const {
  return FindWord(source_, word) != std::string::npos;
}

void ChatTemplate::Free::operator()(JanusTemplate* handle) const {
  janus_template_free(handle);
}

Result<ChatTemplate> ChatTemplate::Compile(std::string_view source, std::string_view name,
                                           const std::map<std::string, std::string>& special_tokens,
                                           ChatTemplateLimits limits) {
  JanusTemplate* handle = nullptr;
  TextBuffer error;
  const int32_t code = janus_template_compile(Bytes(source), source.size(), &handle, error.out());
  if (code != 0) return ToStatus(code, error).Annotate(name);
  nlohmann::json constant = special_tokens;
  // Templates test it for none; Janus never sets it.
  constant["documents"] = nullptr;
  std::string head = constant.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  head.pop_back();
  return ChatTemplate(handle, source, std::move(head), limits);
}

Result<std::string> ChatTemplate::Render(std::string_view messages_json, bool add_generation_prompt,
                                         WallTime now, std::string_view variables_json,
                                         std::string_view tools_json) const {
  std::string variables;
  if (!variables_json.empty()) {
    // They come first, so that the names below win: the last of equal keys counts.
    if (variables_json.front() != '{' || variables_json.back() != '}') {
      return InvalidArgument("template variables: want a JSON object");
    }
    variables.assign(variables_json.substr(0, variables_json.size() - 1));
    if (variables_json.find_first_not_of(" \t\r\n", 1) != variables_json.size() - 1) {
      variables += ',';
    }
    variables.append(head_, 1);
  } else {
    variables = head_;
  }
  variables += ",\"messages\":";
  variables += messages_json;
  variables += ",\"tools\":";
  if (tools_json.empty()) {
    variables += "null";
  } else if (sorts_tools_) {
    const nlohmann::json sorted = nlohmann::json::parse(tools_json, nullptr, false);
    if (sorted.is_discarded()) return InvalidArgument("tools: not JSON");
    variables += sorted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    variables += tools_json;
  }
  variables += ",\"add_generation_prompt\":";
  variables += add_generation_prompt ? "true}" : "false}";

  const int64_t unix_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  TextBuffer text, error;
  const int32_t code =
      janus_template_render(handle_.get(), Bytes(variables), variables.size(), unix_seconds,
                            limits_.instructions, limits_.output_bytes, text.out(), error.out());
  if (code != 0) return ToStatus(code, error);
  return text.str();
}

}  // namespace janus::text
