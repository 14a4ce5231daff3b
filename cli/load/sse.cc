#include "cli/load/sse.h"

#include <nlohmann/json.hpp>

namespace janus::cli {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLine = 1 << 20;

std::string MessageOf(const Json& error) {
  if (error.is_object() && error.contains("message") && error["message"].is_string()) {
    return error["message"].get<std::string>();
  }
  return error.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 200);
}

int IntegerOr(const Json& object, const char* name, int fallback) {
  const auto field = object.find(name);
  return field != object.end() && field->is_number_integer() ? field->get<int>() : fallback;
}

}  // namespace

Status SseParser::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > kMaxLine)
      return ResourceExhausted("the stream has an event of more than 1 MiB");
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    std::string_view line = line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.starts_with("data:")) {
      line.remove_prefix(5);
      if (line.starts_with(" ")) line.remove_prefix(1);
      on_data_(line);
    }
    line_.clear();
  }
  return OkStatus();
}

Result<CompletionChunk> ParseChunk(std::string_view json) {
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object())
    return InvalidArgument("the stream has an event that is not a JSON object");
  CompletionChunk chunk;
  if (const auto error = root.find("error"); error != root.end() && !error->is_null()) {
    chunk.error = MessageOf(*error);
    return chunk;
  }
  if (const auto usage = root.find("usage"); usage != root.end() && usage->is_object()) {
    chunk.prompt_tokens = IntegerOr(*usage, "prompt_tokens", -1);
    chunk.completion_tokens = IntegerOr(*usage, "completion_tokens", -1);
  }
  const auto choices = root.find("choices");
  if (choices == root.end() || !choices->is_array()) {
    return InvalidArgument("the stream has an event without choices");
  }
  for (const Json& choice : *choices) {
    if (!choice.is_object()) continue;
    if (const auto text = choice.find("text"); text != choice.end() && text->is_string()) {
      chunk.text += text->get_ref<const std::string&>();
    }
    if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
      const auto content = delta->find("content");
      if (content != delta->end() && content->is_string()) {
        chunk.text += content->get_ref<const std::string&>();
      }
    }
    const auto reason = choice.find("finish_reason");
    if (reason != choice.end() && reason->is_string()) {
      chunk.finish_reason = reason->get<std::string>();
    }
  }
  return chunk;
}

std::string ErrorMessage(std::string_view body) {
  const Json root = Json::parse(body, nullptr, false);
  if (root.is_object() && root.contains("error")) return MessageOf(root["error"]);
  return std::string(body.substr(0, 200));
}

}  // namespace janus::cli
