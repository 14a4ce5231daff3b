#include "dataplane/gateway/api/messages.h"

namespace janus::gateway {

namespace {

std::string In(const std::string& param, std::string_view field) {
  return param + "." + std::string(field);
}

// Checks the parts; returns each as {"type": "text", "text": ...}.
Json TextParts(const Json& content, const std::string& param) {
  Json parts = Json::array();
  for (const Json& part : content) {
    if (part.is_string()) {
      parts.push_back({{"type", "text"}, {"text", part}});
      continue;
    }
    const auto type = part.is_object() ? part.find("type") : part.end();
    const bool is_text = type != part.end() && (*type == "text" || *type == "refusal");
    const auto text = is_text ? part.find(type->get<std::string>()) : part.end();
    if (text == part.end() || !text->is_string()) {
      throw Refused{UnsupportedParameter(param, "only parts of type 'text' are supported")};
    }
    parts.push_back({{"type", "text"}, {"text", *text}});
  }
  return parts;
}

// Most templates append the content to text, so parts become one string.
std::string Joined(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    if (!text.empty()) text += '\n';
    text += part["text"].get<std::string>();
  }
  return text;
}

// In a message with tool calls, null, absent and empty mean the same.
void ReadContent(const std::string& param, Json* message, Json* with_parts, bool* has_parts) {
  const auto content = message->find("content");
  if (content == message->end() || content->is_null()) {
    if ((*message)["role"] != "assistant") {
      Refuse(In(param, "content"), "a string or a list of text parts", nullptr);
    }
    (*message)["content"] = "";
    (*with_parts)["content"] = "";
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) {
    Refuse(In(param, "content"), "a string or a list of text parts", *content);
  }
  const Json parts = TextParts(*content, In(param, "content"));
  (*message)["content"] = Joined(parts);
  (*with_parts)["content"] = parts;
  *has_parts = true;
}

// Clients send arguments as JSON in a string, but templates print an object with tojson.
void ReadArguments(const std::string& param, Json* function) {
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || arguments->is_null()) {
    (*function)["arguments"] = Json::object();
    return;
  }
  if (arguments->is_object()) return;
  if (!arguments->is_string()) Refuse(param, "a string with a JSON object", *arguments);
  const auto text = arguments->get<std::string>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *arguments = Json::object();
    return;
  }
  try {
    Json parsed = ParseBody(text);
    *arguments = std::move(parsed);
  } catch (const Refused&) {
    // The model may have written invalid JSON: it stays a string.
  }
}

void ReadToolCalls(const std::string& param, Json* message) {
  const auto calls = message->find("tool_calls");
  if (calls == message->end()) return;
  const bool is_empty = calls->is_null() || (calls->is_array() && calls->empty());
  if (is_empty) {
    message->erase("tool_calls");
    return;
  }
  const std::string name = In(param, "tool_calls");
  if (!calls->is_array()) Refuse(name, "a list of calls", *calls);
  for (size_t i = 0; i < calls->size(); ++i) {
    Json& call = (*calls)[i];
    const std::string at = name + "[" + std::to_string(i) + "]";
    if (!call.is_object()) Refuse(at, "an object with a function", call);
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object()) {
      Refuse(In(at, "function"), "an object with name and arguments",
             function == call.end() ? Json() : *function);
    }
    const auto called = function->find("name");
    if (called == function->end() || !called->is_string()) {
      Refuse(In(at, "function.name"), "a string", called == function->end() ? Json() : *called);
    }
    ReadArguments(In(at, "function.arguments"), &*function);
  }
}

Json CheckedMessage(const std::string& param, const Json& from) {
  if (!from.is_object()) Refuse(param, "an object with role and content", from);
  Json message = from;
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    Refuse(In(param, "role"), "a string", role == message.end() ? Json() : *role);
  }
  return message;
}

}  // namespace

void ReadMessages(Fields& fields, CompletionRequest* request) {
  const Json* value = fields.Find("messages");
  if (!value) throw Refused{InvalidParameter("messages", "'messages' is missing")};
  if (!value->is_array() || value->empty()) Refuse("messages", "a list with a message", *value);
  TakeMessages(*value, "messages", request);
}

void TakeMessages(const Json& list, std::string_view param, CompletionRequest* request) {
  Json messages = Json::array(), with_parts = Json::array();
  bool has_parts = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = std::string(param) + "[" + std::to_string(i) + "]";
    Json message = CheckedMessage(at, list[i]);
    ReadToolCalls(at, &message);
    Json of_parts = message;
    ReadContent(at, &message, &of_parts, &has_parts);
    messages.push_back(std::move(message));
    with_parts.push_back(std::move(of_parts));
  }
  request->messages_json = messages.dump();
  if (has_parts) request->part_messages_json = with_parts.dump();
  if (request->continue_final_message) {
    request->final_message = messages.back()["content"].get<std::string>();
  }
}

}  // namespace janus::gateway
