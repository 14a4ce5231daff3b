#include "dataplane/gateway/api/anthropic.h"

#include "dataplane/gateway/api/conversation.h"
#include "dataplane/gateway/api/messages.h"

namespace janus::gateway {

namespace {

std::string At(const std::string& param, size_t i) {
  return param + "[" + std::to_string(i) + "]";
}

std::string StringOf(const Json& block, const std::string& param, std::string_view name) {
  const auto found = block.find(name);
  if (found == block.end() || !found->is_string()) {
    Refuse(param + "." + std::string(name), "a string", found == block.end() ? Json() : *found);
  }
  return found->get<std::string>();
}

std::string TypeOf(const Json& block, const std::string& param) {
  if (!block.is_object()) Refuse(param, "a block (an object with a type)", block);
  return StringOf(block, param, "type");
}

[[noreturn]] void RefuseType(const std::string& param, const std::string& type, std::string_view of,
                             std::string_view taken) {
  throw Refused{UnsupportedParameter(param, "blocks of type '" + type + "' are not supported " +
                                                std::string(of) + "; send " + std::string(taken))};
}

// A string, or blocks of text, which become `add`ed one by one.
template <class Add>
void ReadText(const Json& content, const std::string& param, std::string_view of, Add add) {
  if (content.is_string()) return add(content.get<std::string>());
  if (!content.is_array()) Refuse(param, "a string or a list of blocks", content);
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = At(param, i), type = TypeOf(content[i], at);
    if (type != "text") RefuseType(at, type, of, "text");
    add(StringOf(content[i], at, "text"));
  }
}

void ReadResult(const Json& block, const std::string& param, Conversation* out) {
  std::string text;
  const auto content = block.find("content");
  if (content != block.end() && !content->is_null()) {
    ReadText(*content, param + ".content", "in a tool's result", [&](const std::string& more) {
      if (!text.empty()) text += '\n';
      text += more;
    });
  }
  out->AddResult(StringOf(block, param, "tool_use_id"), text);
}

void ReadUserBlock(const Json& block, const std::string& param, Conversation* out) {
  const std::string type = TypeOf(block, param);
  if (type == "text") return out->AddText("user", StringOf(block, param, "text"));
  if (type == "tool_result") return ReadResult(block, param, out);
  RefuseType(param, type, "in a user's message", "text or tool_result");
}

void ReadAssistantBlock(const Json& block, const std::string& param, Conversation* out) {
  const std::string type = TypeOf(block, param);
  if (type == "text") return out->AddText("assistant", StringOf(block, param, "text"));
  if (type == "thinking") return out->AddReasoning(StringOf(block, param, "thinking"));
  if (type == "redacted_thinking") return;  // another server's: it cannot be read
  if (type != "tool_use") {
    RefuseType(param, type, "in an assistant's message", "text, thinking or tool_use");
  }
  const auto input = block.find("input");
  if (input == block.end() || !input->is_object()) {
    Refuse(param + ".input", "an object", input == block.end() ? Json() : *input);
  }
  out->AddCall(StringOf(block, param, "id"), StringOf(block, param, "name"), *input);
}

void ReadMessage(const Json& message, const std::string& param, Conversation* out) {
  if (!message.is_object()) Refuse(param, "an object with role and content", message);
  const std::string role = StringOf(message, param, "role");
  if (role != "user" && role != "assistant" && role != "system") {
    Refuse(param + ".role", "'user' or 'assistant'", Json(role));
  }
  const auto content = message.find("content");
  const std::string at = param + ".content";
  if (content == message.end()) Refuse(at, "a string or a list of blocks", Json());
  if (role == "system" || !content->is_array()) {
    return ReadText(*content, at, "in a system message",
                    [&](const std::string& text) { out->AddText(role, text); });
  }
  for (size_t i = 0; i < content->size(); ++i) {
    if (role == "user") {
      ReadUserBlock((*content)[i], At(at, i), out);
    } else {
      ReadAssistantBlock((*content)[i], At(at, i), out);
    }
  }
}

void ReadThinking(Fields& fields, CompletionRequest* request) {
  request->thinking = CompletionRequest::Thinking::kOffIfPossible;
  const Json* thinking = fields.Find("thinking");
  if (!thinking) return;
  const Json type = thinking->is_object() ? thinking->value("type", Json()) : Json();
  if (type == "enabled" || type == "adaptive") {
    request->thinking = CompletionRequest::Thinking::kOn;
  } else if (type == "disabled") {
    request->thinking = CompletionRequest::Thinking::kOff;
  } else {
    Refuse("thinking", "an object whose type is 'enabled', 'adaptive' or 'disabled'", *thinking);
  }
}

}  // namespace

void ReadAnthropic(Fields& fields, CompletionRequest* request) {
  Conversation conversation;
  if (const Json* system = fields.Find("system")) {
    ReadText(*system, "system", "in 'system'",
             [&](const std::string& text) { conversation.AddText("system", text); });
  }
  const Json* messages = fields.Find("messages");
  if (!messages) throw Refused{InvalidParameter("messages", "'messages' is missing")};
  if (!messages->is_array() || messages->empty()) {
    Refuse("messages", "a list with a message", *messages);
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    ReadMessage((*messages)[i], At("messages", i), &conversation);
  }
  const Json list = conversation.Take();
  if (list.empty()) Refuse("messages", "a list with a block of text", *messages);
  request->continue_final_message = list.back()["role"] == "assistant";
  request->add_generation_prompt = !request->continue_final_message;
  TakeMessages(list, "messages", request);
  ReadThinking(fields, request);
}

}  // namespace janus::gateway
