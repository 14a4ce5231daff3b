#include "dataplane/gateway/completion_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace janus::gateway {

namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxTokensBound = int64_t{1} << 31;

// Deeper JSON would recurse as deeply in every walk over it.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

RequestError Malformed(std::string message) {
  return {400, "invalid_request_error", "malformed_json", "", std::move(message)};
}

// Thrown within this file only, caught in ParseCompletionRequest: thirty checks read as thirty
// lines.
struct Refused {
  RequestError error;
};

[[noreturn]] void Refuse(std::string_view param, const std::string& wanted, const json& got) {
  std::string shown = got.dump(-1, ' ', false, json::error_handler_t::replace);
  if (shown.size() > 100) shown = shown.substr(0, 100) + "...";
  throw Refused{
      InvalidParameter(param, "'" + std::string(param) + "' must be " + wanted + ", got " + shown)};
}

// Reads the fields of one object; fields that were never read are found at the end.
class Fields {
 public:
  explicit Fields(const json& root) : root_(root) {}

  // Null when absent or null.
  const json* Find(const char* name) {
    seen_.push_back(name);
    const auto found = root_.find(name);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }
  std::optional<bool> Bool(const char* name) {
    const json* value = Find(name);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) Refuse(name, "true or false", *value);
    return value->get<bool>();
  }
  std::optional<int64_t> Integer(const char* name, int64_t least, int64_t most) {
    const json* value = Find(name);
    if (!value) return std::nullopt;
    const std::string wanted =
        "an integer between " + std::to_string(least) + " and " + std::to_string(most);
    if (!value->is_number_integer()) Refuse(name, wanted, *value);
    if (value->is_number_unsigned() &&
        value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Refuse(name, wanted, *value);
    }
    const auto number = value->get<int64_t>();
    if (number < least || number > most) Refuse(name, wanted, *value);
    return number;
  }
  std::optional<double> Number(const char* name, const char* wanted, auto&& allowed) {
    const json* value = Find(name);
    if (!value) return std::nullopt;
    if (!value->is_number()) Refuse(name, wanted, *value);
    const double number = value->get<double>();
    if (!std::isfinite(number) || !allowed(number)) Refuse(name, wanted, *value);
    return number;
  }

  bool WasAskedFor(std::string_view name) const {
    return std::ranges::find(seen_, name) != seen_.end();
  }

 private:
  const json& root_;
  std::vector<std::string_view> seen_;
};

// Parameters that are not carried out, with the values that change nothing beside null.
struct Inert {
  const char* name;
  std::vector<json> neutral;
};

const std::vector<Inert>& InertParameters() {
  static const auto* const list = new std::vector<Inert>{
      {"n", {1}},
      {"best_of", {1}},
      {"echo", {false}},
      {"suffix", {""}},
      {"frequency_penalty", {0}},
      {"presence_penalty", {0}},
      {"repetition_penalty", {1}},
      {"length_penalty", {1}},
      {"min_p", {0}},
      {"min_tokens", {0}},
      {"logit_bias", {json::object()}},
      {"use_beam_search", {false}},
      {"include_stop_str_in_output", {false}},
      {"spaces_between_special_tokens", {true}},
      {"truncate_prompt_tokens", {}},
      {"continue_final_message", {false}},
      {"prompt_logprobs", {}},
      {"response_format", {json{{"type", "text"}}}},
      {"tools", {json::array()}},
      {"tool_choice", {"none", "auto"}},
      {"parallel_tool_calls", {true, false}},
      {"functions", {json::array()}},
      {"function_call", {"none", "auto"}},
      {"modalities", {json::array({"text"})}},
      {"audio", {}},
      {"prediction", {}},
      {"reasoning_effort", {}},
      {"verbosity", {}},
      {"web_search_options", {}},
  };
  return *list;
}

constexpr std::array<std::string_view, 7> kIgnored = {"user", "metadata", "store", "service_tier",
                                                      // What replaced `user` in newer clients.
                                                      "safety_identifier", "prompt_cache_key",
                                                      "prompt_cache_retention"};

void RefuseWhatIsNotCarriedOut(const json& root, const Fields& fields) {
  for (const auto& [name, value] : root.items()) {
    if (fields.WasAskedFor(name) || std::ranges::find(kIgnored, name) != kIgnored.end()) continue;
    if (value.is_null()) continue;
    const auto inert =
        std::ranges::find_if(InertParameters(), [&](const Inert& i) { return i.name == name; });
    if (inert == InertParameters().end()) {
      throw Refused{UnsupportedParameter(name, "unknown parameter '" + name + "'")};
    }
    if (std::ranges::find(inert->neutral, value) == inert->neutral.end()) {
      std::string only;
      for (const json& neutral : inert->neutral)
        only += (only.empty() ? "" : " or ") + neutral.dump();
      throw Refused{UnsupportedParameter(
          name, "'" + name + "' is not supported; " +
                    (only.empty() ? "leave it out" : "leave it out or set it to " + only))};
    }
  }
}

void ReadStop(Fields& fields, CompletionRequest* request) {
  const std::string wanted =
      "a string or a list of at most " + std::to_string(kMaxStops) + " strings, none of them empty";
  const json* value = fields.Find("stop");
  if (!value) return;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMaxStops) Refuse("stop", wanted, *value);
  for (const json& stop : list) {
    if (!stop.is_string()) Refuse("stop", wanted, *value);
    const auto text = stop.get<std::string>();
    if (text.empty()) Refuse("stop", wanted, *value);
    if (text.size() > kMaxStopBytes) {
      throw Refused{InvalidParameter("stop", "a stop string has " + std::to_string(text.size()) +
                                                 " bytes, at most " +
                                                 std::to_string(kMaxStopBytes) + " are allowed")};
    }
    request->stop.push_back(text);
  }
}

std::vector<int32_t> ReadTokenIds(const json& list, const char* name) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json& id : list) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX) ||
        id.get<int64_t>() < 0) {
      Refuse(name, "made of token ids (integers, 0 or more)", id);
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

void ReadPrompts(Fields& fields, CompletionRequest* request) {
  constexpr const char* kWanted =
      "a string, a list of token ids, or a list of at most 128 of either";
  const json* value = fields.Find("prompt");
  if (!value) throw Refused{InvalidParameter("prompt", "'prompt' is missing")};
  if (value->is_string()) {
    request->prompts.emplace_back(value->get<std::string>());
    return;
  }
  if (!value->is_array()) Refuse("prompt", kWanted, *value);
  if (value->empty()) throw Refused{InvalidParameter("prompt", "'prompt' is an empty list")};
  if (value->front().is_number()) {
    request->prompts.emplace_back(ReadTokenIds(*value, "prompt"));
    return;
  }
  if (value->size() > kMaxPrompts) Refuse("prompt", kWanted, *value);
  for (const json& prompt : *value) {
    if (prompt.is_string()) {
      request->prompts.emplace_back(prompt.get<std::string>());
    } else if (prompt.is_array() && !prompt.empty()) {
      request->prompts.emplace_back(ReadTokenIds(prompt, "prompt"));
    } else {
      Refuse("prompt", kWanted, prompt);
    }
  }
}

// Text parts become one string, as templates of text models expect.
json Flattened(const json& content, const std::string& param) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) Refuse(param, "a string or a list of text parts", content);
  std::string text;
  for (const json& part : content) {
    if (!part.is_object() || part.value("type", json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      throw Refused{UnsupportedParameter(param, "only parts of type 'text' are supported")};
    }
    if (!text.empty()) text += '\n';
    text += part["text"].get<std::string>();
  }
  return text;
}

void ReadMessages(Fields& fields, CompletionRequest* request) {
  const json* value = fields.Find("messages");
  if (!value) throw Refused{InvalidParameter("messages", "'messages' is missing")};
  if (!value->is_array() || value->empty()) Refuse("messages", "a list with a message", *value);
  json messages = json::array();
  for (size_t i = 0; i < value->size(); ++i) {
    const std::string param = "messages[" + std::to_string(i) + "]";
    json message = (*value)[i];
    if (!message.is_object()) Refuse(param, "an object with role and content", message);
    if (!message.contains("role") || !message["role"].is_string()) {
      Refuse(param + ".role", "a string", message.value("role", json()));
    }
    if (message.contains("tool_calls") && !message["tool_calls"].is_null()) {
      throw Refused{UnsupportedParameter(param + ".tool_calls", "tool calls are not supported")};
    }
    if (!message.contains("content") || message["content"].is_null()) {
      Refuse(param + ".content", "a string or a list of text parts", nullptr);
    }
    message["content"] = Flattened(message["content"], param + ".content");
    messages.push_back(std::move(message));
  }
  request->messages_json = messages.dump();
}

void ReadLogprobs(Fields& fields, CompletionRequest* request) {
  if (request->endpoint == Endpoint::kCompletions) {
    if (const auto n = fields.Integer("logprobs", 0, 5)) request->logprobs = static_cast<int>(*n);
    return;
  }
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", 0, 20);
  if (top && *top > 0 && !wanted) {
    throw Refused{InvalidParameter("top_logprobs", "'top_logprobs' needs 'logprobs': true")};
  }
  if (wanted) request->logprobs = static_cast<int>(top.value_or(0));
}

void ReadStream(Fields& fields, CompletionRequest* request) {
  request->stream = fields.Bool("stream").value_or(false);
  const json* options = fields.Find("stream_options");
  if (!options) return;
  if (!options->is_object()) Refuse("stream_options", "an object", *options);
  if (!request->stream) {
    throw Refused{InvalidParameter("stream_options", "'stream_options' needs 'stream': true")};
  }
  for (const auto& [name, value] : options->items()) {
    // Padding against traffic analysis; there is none here, so false is what is done.
    if (name == "include_obfuscation" && (value == false || value.is_null())) continue;
    if (name != "include_usage") {
      throw Refused{UnsupportedParameter("stream_options." + name,
                                         "'stream_options." + name + "' is not supported")};
    }
    if (!value.is_boolean()) Refuse("stream_options.include_usage", "true or false", value);
    request->include_usage = value.get<bool>();
  }
}

void ReadSampling(Fields& fields, CompletionRequest* request) {
  request->temperature = fields.Number("temperature", "a number between 0 and 2",
                                       [](double t) { return t >= 0 && t <= 2; });
  request->top_p = fields.Number("top_p", "a number above 0 and at most 1",
                                 [](double p) { return p > 0 && p <= 1; });
  request->top_k = fields.Integer("top_k", -1, INT32_MAX);
  if (request->top_k == -1) request->top_k = 0;
  if (const json* seed = fields.Find("seed")) {
    if (!seed->is_number_integer()) Refuse("seed", "an integer of 64 bits", *seed);
    request->seed = seed->is_number_unsigned() ? seed->get<uint64_t>()
                                               : static_cast<uint64_t>(seed->get<int64_t>());
  }
}

void ReadMaxTokens(Fields& fields, CompletionRequest* request) {
  request->max_tokens = fields.Integer("max_tokens", 1, kMaxTokensBound);
  if (request->endpoint != Endpoint::kChat) return;
  // The newer name of the same.
  if (const auto tokens = fields.Integer("max_completion_tokens", 1, kMaxTokensBound)) {
    request->max_tokens = tokens;
  }
}

CompletionRequest Read(Endpoint endpoint, const json& root) {
  CompletionRequest request;
  request.endpoint = endpoint;
  Fields fields(root);
  const json* model = fields.Find("model");
  if (!model) throw Refused{InvalidParameter("model", "'model' is missing")};
  if (!model->is_string()) Refuse("model", "a string", *model);
  request.model = model->get<std::string>();
  if (endpoint == Endpoint::kChat) {
    ReadMessages(fields, &request);
    request.add_generation_prompt = fields.Bool("add_generation_prompt").value_or(true);
    if (const json* variables = fields.Find("chat_template_kwargs")) {
      if (!variables->is_object()) Refuse("chat_template_kwargs", "an object", *variables);
      request.template_variables_json = variables->dump();
    }
  } else {
    ReadPrompts(fields, &request);
  }
  request.add_special_tokens = fields.Bool("add_special_tokens");
  ReadStream(fields, &request);
  ReadMaxTokens(fields, &request);
  ReadSampling(fields, &request);
  ReadStop(fields, &request);
  if (const json* ids = fields.Find("stop_token_ids")) {
    if (!ids->is_array() || ids->size() > 64) {
      Refuse("stop_token_ids", "a list of at most 64 token ids", *ids);
    }
    request.stop_token_ids = ReadTokenIds(*ids, "stop_token_ids");
  }
  request.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  request.skip_special_tokens = fields.Bool("skip_special_tokens").value_or(true);
  ReadLogprobs(fields, &request);
  request.logits_hash = fields.Bool("logits_hash").value_or(false);
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  RefuseWhatIsNotCarriedOut(root, fields);
  return request;
}

}  // namespace

RequestResult<CompletionRequest> ParseCompletionRequest(Endpoint endpoint, std::string_view body) {
  if (IsTooDeep(body)) return Malformed("the body nests JSON more than 64 levels deep");
  try {
    const json root = json::parse(body);
    if (!root.is_object()) return Malformed("the body must be a JSON object");
    return Read(endpoint, root);
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const json::exception& e) {
    // The parser's reason ends with the last bytes it read, which may be no UTF-8; ToJson mends it.
    return Malformed(std::string("the body is not valid JSON: ") + e.what());
  }
}

}  // namespace janus::gateway
