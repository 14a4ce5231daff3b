#include "dataplane/text/chat_template.h"

#include <nlohmann/json.hpp>

#include "dataplane/text/text_buffer.h"

namespace janus::text {

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
  // Templates test these for none; nothing here fills them yet.
  constant["tools"] = nullptr;
  constant["documents"] = nullptr;
  std::string head = constant.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  head.pop_back();
  return ChatTemplate(handle, std::move(head), limits);
}

Result<std::string> ChatTemplate::Render(std::string_view messages_json, bool add_generation_prompt,
                                         WallTime now, std::string_view variables_json) const {
  std::string variables;
  if (!variables_json.empty()) {
    // First, so that the names below win: of equal keys the last one counts.
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
