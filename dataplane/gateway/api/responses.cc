#include "dataplane/gateway/api/responses.h"

#include "dataplane/gateway/api/conversation.h"
#include "dataplane/gateway/api/messages.h"

namespace janus::gateway {

namespace {

std::string At(const std::string& param, size_t i) {
  return param + "[" + std::to_string(i) + "]";
}

std::string StringOf(const Json& item, const std::string& param, std::string_view name) {
  const auto found = item.find(name);
  if (found == item.end() || !found->is_string()) {
    Refuse(param + "." + std::string(name), "a string", found == item.end() ? Json() : *found);
  }
  return found->get<std::string>();
}

// A string, or parts with text, which become `add`ed one by one.
template <class Add>
void ReadContent(const Json& content, const std::string& param, Add add) {
  if (content.is_string()) return add(content.get<std::string>());
  if (!content.is_array()) Refuse(param, "a string or a list of parts", content);
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string at = At(param, i);
    if (!part.is_object()) Refuse(at, "a part (an object with a type)", part);
    const std::string type = StringOf(part, at, "type");
    const bool is_text = type == "input_text" || type == "output_text" || type == "text";
    if (!is_text && type != "refusal") {
      throw Refused{UnsupportedParameter(
          at, "parts of type '" + type + "' are not supported; send input_text or output_text")};
    }
    add(StringOf(part, at, is_text ? "text" : "refusal"));
  }
}

const Json& ContentOf(const Json& item, const std::string& param, std::string_view name) {
  const auto found = item.find(name);
  if (found == item.end()) {
    Refuse(param + "." + std::string(name), "a string or a list of parts", Json());
  }
  return *found;
}

void ReadMessage(const Json& item, const std::string& param, Conversation* out) {
  std::string role = StringOf(item, param, "role");
  if (role == "developer") role = "system";
  if (role != "user" && role != "assistant" && role != "system") {
    Refuse(param + ".role", "'user', 'assistant', 'system' or 'developer'", Json(role));
  }
  ReadContent(ContentOf(item, param, "content"), param + ".content",
              [&](const std::string& text) { out->AddText(role, text); });
}

// The texts of one of the lists of a reasoning item: [{"type", "text"}].
std::string TextsOf(const Json& item, const std::string& param, std::string_view name) {
  std::string out;
  const auto list = item.find(name);
  if (list == item.end() || list->is_null()) return out;
  const std::string at = param + "." + std::string(name);
  if (!list->is_array()) Refuse(at, "a list of texts", *list);
  for (size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_object()) Refuse(At(at, i), "an object with a text", (*list)[i]);
    if (!out.empty()) out += '\n';
    out += StringOf((*list)[i], At(at, i), "text");
  }
  return out;
}

void ReadItem(const Json& item, const std::string& param, Conversation* out) {
  if (!item.is_object()) Refuse(param, "an item (an object)", item);
  const bool is_message = !item.contains("type") || item["type"].is_null();
  const std::string type = is_message ? "message" : StringOf(item, param, "type");
  if (type == "message") return ReadMessage(item, param, out);
  if (type == "reasoning") {
    std::string text = TextsOf(item, param, "content");
    if (text.empty()) text = TextsOf(item, param, "summary");
    if (!text.empty()) out->AddReasoning(text);
    return;
  }
  if (type == "function_call") {
    return out->AddCall(StringOf(item, param, "call_id"), StringOf(item, param, "name"),
                        StringOf(item, param, "arguments"));
  }
  if (type == "function_call_output") {
    std::string text;
    ReadContent(ContentOf(item, param, "output"), param + ".output", [&](const std::string& more) {
      if (!text.empty()) text += '\n';
      text += more;
    });
    return out->AddResult(StringOf(item, param, "call_id"), text);
  }
  throw Refused{UnsupportedParameter(
      param, "items of type '" + type +
                 "' are not supported; send message, reasoning, function_call or "
                 "function_call_output")};
}

void ReadReasoning(Fields& fields, CompletionRequest* request) {
  const Json* reasoning = fields.Find("reasoning");
  if (!reasoning) return;
  if (!reasoning->is_object()) Refuse("reasoning", "an object", *reasoning);
  for (const auto& [name, value] : reasoning->items()) {
    // No summary is made: the reasoning itself is in the answer.
    if (value.is_null() || name == "summary" || name == "generate_summary") continue;
    const std::string param = "reasoning." + name;
    if (name != "effort") {
      throw Refused{UnsupportedParameter(param, "'" + param + "' is not supported; leave it out")};
    }
    if (!value.is_string()) Refuse(param, "a string", value);
    request->reasoning_effort = value.get<std::string>();
  }
}

void ReadInclude(Fields& fields, CompletionRequest* request) {
  const auto top = fields.Integer("top_logprobs");
  const Json* include = fields.Find("include");
  if (!include) return;
  if (!include->is_array()) Refuse("include", "a list of strings", *include);
  for (const Json& one : *include) {
    // Clients without a stored state ask for it; the reasoning is in the answer as text.
    if (one == "reasoning.encrypted_content") continue;
    if (one == "message.output_text.logprobs") {
      request->logprobs = static_cast<int>(top.value_or(0));
      continue;
    }
    if (!one.is_string()) Refuse("include", "a list of strings", *include);
    throw Refused{UnsupportedParameter(
        "include", "'include' of '" + one.get<std::string>() + "' is not supported")};
  }
}

}  // namespace

void ReadResponses(Fields& fields, CompletionRequest* request) {
  Conversation conversation;
  if (const auto instructions = fields.String("instructions")) {
    conversation.AddText("system", *instructions);
  }
  const Json* input = fields.Find("input");
  if (!input) throw Refused{InvalidParameter("input", "'input' is missing")};
  if (input->is_string()) {
    conversation.AddText("user", input->get<std::string>());
  } else {
    if (!input->is_array() || input->empty()) {
      Refuse("input", "a string or a list with an item", *input);
    }
    for (size_t i = 0; i < input->size(); ++i) {
      ReadItem((*input)[i], At("input", i), &conversation);
    }
  }
  const Json list = conversation.Take();
  if (list.empty()) Refuse("input", "a list with a text", *input);
  TakeMessages(list, "input", request);
  ReadReasoning(fields, request);
  ReadInclude(fields, request);
}

std::string RepeatedFields(const Json& root) {
  const auto given = [&](const char* name, Json absent) {
    const auto found = root.find(name);
    return found == root.end() || found->is_null() ? absent : *found;
  };
  Json out = {{"background", false},
              {"conversation", nullptr},
              {"instructions", given("instructions", nullptr)},
              {"max_output_tokens", given("max_output_tokens", nullptr)},
              {"max_tool_calls", nullptr},
              {"metadata", given("metadata", Json::object())},
              {"parallel_tool_calls", given("parallel_tool_calls", true)},
              {"previous_response_id", nullptr},
              {"prompt_cache_key", given("prompt_cache_key", nullptr)},
              {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
              {"safety_identifier", given("safety_identifier", nullptr)},
              {"service_tier", "default"},
              {"store", false},
              {"temperature", given("temperature", nullptr)},
              {"text", given("text", {{"format", {{"type", "text"}}}})},
              {"tool_choice", given("tool_choice", "auto")},
              {"tools", given("tools", Json::array())},
              {"top_logprobs", given("top_logprobs", 0)},
              {"top_p", given("top_p", nullptr)},
              {"truncation", "disabled"},
              {"user", given("user", nullptr)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace janus::gateway
