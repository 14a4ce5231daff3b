#include "dataplane/gateway/api/conversation.h"

#include <utility>

namespace janus::gateway {

Json& Conversation::Last(std::string_view role) {
  if (messages_.empty() || messages_.back()["role"] != role) {
    messages_.push_back({{"role", role}, {"content", Json::array()}});
  }
  return messages_.back();
}

void Conversation::AddText(std::string_view role, const std::string& text) {
  Last(role)["content"].push_back({{"type", "text"}, {"text", text}});
}

void Conversation::AddReasoning(const std::string& text) {
  Json& message = Last("assistant");
  const std::string before = message.value("reasoning_content", "");
  message["reasoning_content"] = before.empty() ? text : before + "\n" + text;
}

void Conversation::AddCall(const std::string& id, const std::string& name, const Json& arguments) {
  functions_[id] = name;
  Last("assistant")["tool_calls"].push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
}

void Conversation::AddResult(const std::string& id, const std::string& text) {
  Json message = {{"role", "tool"}, {"tool_call_id", id}};
  if (const auto found = functions_.find(id); found != functions_.end()) {
    message["name"] = found->second;
  }
  message["content"] = text;
  messages_.push_back(std::move(message));
}

Json Conversation::Take() {
  Json out = std::exchange(messages_, Json::array());
  for (Json& message : out) {
    Json& content = message["content"];
    // One text is a string: only several are parts.
    if (!content.is_array() || content.size() > 1) continue;
    Json text = content.empty() ? Json("") : content[0]["text"];
    content = std::move(text);
  }
  return out;
}

}  // namespace janus::gateway
