#include "dataplane/gateway/api/completion_request.h"

#include <charconv>

#include "dataplane/gateway/api/anthropic.h"
#include "dataplane/gateway/api/fields.h"
#include "dataplane/gateway/api/messages.h"
#include "dataplane/gateway/api/prompts.h"
#include "dataplane/gateway/api/responses.h"
#include "dataplane/gateway/api/structured.h"
#include "dataplane/gateway/api/tools.h"

namespace janus::gateway {

namespace {

// Reads the parameter `name`. If it may be one string, `is_list` is false.
void ReadStop(Fields& fields, std::string_view name, bool is_list, CompletionRequest* request) {
  const Json* value = fields.Find(name);
  if (!value) return;
  const std::string wanted = WantedOf(*FindParameter(name, request->endpoint));
  const Json list = is_list || value->is_array() ? *value : Json::array({*value});
  if (!list.is_array() || list.size() > static_cast<size_t>(kMaxStops)) {
    Refuse(name, wanted, *value);
  }
  for (const Json& stop : list) {
    if (!stop.is_string()) Refuse(name, wanted, *value);
    const auto text = stop.get<std::string>();
    if (text.empty()) Refuse(name, wanted, *value);
    if (text.size() > kMaxStopBytes) {
      throw Refused{InvalidParameter(name, "a stop string has " + std::to_string(text.size()) +
                                               " bytes, at most " + std::to_string(kMaxStopBytes) +
                                               " are allowed")};
    }
    request->stop.push_back(text);
  }
}

void ReadEnds(Fields& fields, CompletionRequest* request) {
  if (request->endpoint == Endpoint::kMessages) {
    ReadStop(fields, "stop_sequences", /*is_list=*/true, request);
  } else if (request->endpoint != Endpoint::kResponses) {
    ReadStop(fields, "stop", /*is_list=*/false, request);
    request->include_stop = fields.Bool("include_stop_str_in_output").value_or(false);
  }
  if (const Json* ids = fields.Find("stop_token_ids")) {
    if (!ids->is_array() || ids->size() > static_cast<size_t>(kMaxStopTokens)) {
      Refuse("stop_token_ids", "a list of at most 64 token ids", *ids);
    }
    request->stop_token_ids = ReadTokenIds(*ids, "stop_token_ids");
  }
  request->ignore_eos = fields.Bool("ignore_eos").value_or(false);
}

void ReadPromptLogprobs(Fields& fields, CompletionRequest* request) {
  const auto n = fields.Integer("prompt_logprobs");
  if (n && *n >= 0) request->prompt_logprobs = static_cast<int>(*n);
  if (request->prompt_logprobs && request->stream) {
    throw Refused{InvalidParameter("prompt_logprobs",
                                   "'prompt_logprobs' cannot be shown with 'stream': true")};
  }
  if (request->endpoint == Endpoint::kCompletions) {
    request->echo = fields.Bool("echo").value_or(false);
  }
  if (request->max_tokens == 0 && !request->echo && !request->prompt_logprobs) {
    throw Refused{InvalidParameter(
        "max_tokens",
        "'max_tokens' must be 1 or more without 'echo' and 'prompt_logprobs', got 0")};
  }
}

void ReadLogprobs(Fields& fields, CompletionRequest* request) {
  if (request->endpoint == Endpoint::kCompletions) {
    if (const auto n = fields.Integer("logprobs")) request->logprobs = static_cast<int>(*n);
    return;
  }
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs");
  if (top && *top > 0 && !wanted) {
    throw Refused{InvalidParameter("top_logprobs", "'top_logprobs' needs 'logprobs': true")};
  }
  if (wanted) request->logprobs = static_cast<int>(top.value_or(0));
}

void ReadStream(Fields& fields, CompletionRequest* request) {
  request->stream = fields.Bool("stream").value_or(false);
  if (request->endpoint == Endpoint::kMessages) return;
  const Json* options = fields.Find("stream_options");
  if (!options) return;
  if (!options->is_object()) Refuse("stream_options", "an object", *options);
  // Some clients send it with every request, even empty.
  if (!request->stream && !options->empty()) {
    throw Refused{InvalidParameter("stream_options", "'stream_options' needs 'stream': true")};
  }
  for (const auto& [name, value] : options->items()) {
    if (value.is_null()) continue;
    const std::string param = "stream_options." + name;
    // A response has its usage in any case.
    const bool is_known = name == "include_usage" || (name == "continuous_usage_stats" &&
                                                      request->endpoint != Endpoint::kResponses);
    // This asks for padding against traffic analysis. The gateway adds none, so false is satisfied.
    if (name == "include_obfuscation" && value == false) continue;
    if (!is_known) {
      throw Refused{UnsupportedParameter(param, "'" + param + "' is not supported")};
    }
    if (!value.is_boolean()) Refuse(param, "true or false", value);
    (name == "include_usage" ? request->include_usage : request->continuous_usage) =
        value.get<bool>();
  }
}

// {"50256": -100}: clients send ids as keys.
void ReadLogitBias(Fields& fields, CompletionRequest* request) {
  const Json* value = fields.Find("logit_bias");
  if (!value) return;
  const std::string wanted = WantedOf(*FindParameter("logit_bias", request->endpoint));
  if (!value->is_object() || value->size() > static_cast<size_t>(kMaxBiases)) {
    Refuse("logit_bias", wanted, *value);
  }
  for (const auto& [key, bias] : value->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool is_id = error == std::errc() && end == key.data() + key.size() && token >= 0;
    // "7" and "07" would be the same token.
    if (!is_id || std::to_string(token) != key) {
      Refuse("logit_bias", wanted, Json(key));
    }
    const double number = bias.is_number() ? bias.get<double>() : 1000;
    if (!(number >= -100 && number <= 100)) Refuse("logit_bias." + key, "-100 to 100", bias);
    request->logit_bias.emplace_back(token, static_cast<float>(number));
  }
}

void ReadPenalties(Fields& fields, CompletionRequest* request) {
  request->frequency_penalty = fields.Number("frequency_penalty").value_or(0);
  request->presence_penalty = fields.Number("presence_penalty").value_or(0);
  request->repetition_penalty = fields.Number("repetition_penalty").value_or(1);
  request->min_p = fields.Number("min_p").value_or(0);
  request->min_tokens = fields.Integer("min_tokens").value_or(0);
  if (request->max_tokens && request->min_tokens > *request->max_tokens) {
    throw Refused{InvalidParameter(
        "min_tokens", "'min_tokens' of " + std::to_string(request->min_tokens) +
                          " is more than 'max_tokens', " + std::to_string(*request->max_tokens))};
  }
  ReadLogitBias(fields, request);
}

void ReadSampling(Fields& fields, CompletionRequest* request) {
  request->temperature = fields.Number("temperature");
  request->top_p = fields.Number("top_p");
  request->top_k = fields.Integer("top_k");
  if (request->top_k == -1) request->top_k = 0;
  if (const Json* seed = fields.Find("seed")) {
    if (!seed->is_number_integer()) Refuse("seed", "an integer of 64 bits", *seed);
    request->seed = seed->is_number_unsigned() ? seed->get<uint64_t>()
                                               : static_cast<uint64_t>(seed->get<int64_t>());
  }
}

void ReadMaxTokens(Fields& fields, CompletionRequest* request) {
  if (request->endpoint == Endpoint::kResponses) {
    request->max_tokens = fields.Integer("max_output_tokens");
    return;
  }
  request->max_tokens = fields.Integer("max_tokens");
  if (request->endpoint == Endpoint::kMessages && !request->max_tokens) {
    throw Refused{InvalidParameter("max_tokens", "'max_tokens' is missing")};
  }
  if (request->endpoint != Endpoint::kChat) return;
  if (const auto tokens = fields.Integer("max_completion_tokens")) request->max_tokens = tokens;
}

void ReadChoices(Fields& fields, CompletionRequest* request) {
  request->n = static_cast<int>(fields.Integer("n").value_or(1));
  const auto best_of = fields.Integer("best_of");
  if (best_of && *best_of != request->n) {
    throw Refused{UnsupportedParameter(
        "best_of", "'best_of' must equal 'n': every answer that is computed is returned")};
  }
  const auto prompts = static_cast<int>(request->prompts.size());
  if (request->n * prompts > kMaxChoices) {
    throw Refused{InvalidParameter("n", "'n' of " + std::to_string(request->n) + " for " +
                                            std::to_string(prompts) + " prompts: at most " +
                                            std::to_string(kMaxChoices) + " answers in all")};
  }
}

void ReadOpenAiChat(Fields& fields, CompletionRequest* request) {
  request->continue_final_message = fields.Bool("continue_final_message").value_or(false);
  const auto prompt = fields.Bool("add_generation_prompt");
  if (request->continue_final_message && prompt.value_or(false)) {
    throw Refused{InvalidParameter(
        "continue_final_message",
        "'continue_final_message' and 'add_generation_prompt' cannot both be true")};
  }
  request->add_generation_prompt = prompt.value_or(!request->continue_final_message);
  ReadMessages(fields, request);
  request->reasoning_effort = fields.String("reasoning_effort");
}

void ReadPrompt(Fields& fields, CompletionRequest* request) {
  switch (request->endpoint) {
    case Endpoint::kCompletions:
      return ReadPrompts(fields, request);
    case Endpoint::kChat:
      ReadOpenAiChat(fields, request);
      break;
    case Endpoint::kMessages:
      ReadAnthropic(fields, request);
      break;
    case Endpoint::kResponses:
      ReadResponses(fields, request);
      break;
  }
  ReadTools(fields, request);
  if (const Json* variables = fields.Find("chat_template_kwargs")) {
    if (!variables->is_object()) Refuse("chat_template_kwargs", "an object", *variables);
    request->template_variables_json = variables->dump();
  }
}

void ReadRoutedExperts(Fields& fields, CompletionRequest* request) {
  const bool wanted = fields.Bool("return_routed_experts").value_or(false);
  const int64_t from = fields.Integer("routed_experts_start_len").value_or(0);
  if (from > 0 && !wanted) {
    throw Refused{
        InvalidParameter("routed_experts_start_len",
                         "'routed_experts_start_len' needs 'return_routed_experts': true")};
  }
  if (wanted) request->routed_from = from;
}

// What only OpenAI's older endpoints have.
void ReadBoth(Fields& fields, CompletionRequest* request) {
  request->add_special_tokens = fields.Bool("add_special_tokens");
  request->truncate_prompt_tokens = fields.Integer("truncate_prompt_tokens");
  if (request->truncate_prompt_tokens == 0) {
    Refuse("truncate_prompt_tokens", "-1, or an integer of 1 or more", Json(0));
  }
  ReadChoices(fields, request);
  ReadLogprobs(fields, request);
  ReadPromptLogprobs(fields, request);
  request->logits_hash = fields.Bool("logits_hash").value_or(false);
  request->return_token_ids = fields.Bool("return_token_ids").value_or(false);
  ReadRoutedExperts(fields, request);
}

CompletionRequest Read(Endpoint endpoint, const Json& root, UnknownParameters unknown) {
  CompletionRequest request;
  request.endpoint = endpoint;
  Fields fields(root, endpoint);
  const std::optional<std::string> model = fields.String("model");
  if (!model) throw Refused{InvalidParameter("model", "'model' is missing")};
  request.model = *model;
  ReadPrompt(fields, &request);
  ReadStream(fields, &request);
  ReadMaxTokens(fields, &request);
  ReadSampling(fields, &request);
  ReadPenalties(fields, &request);
  ReadEnds(fields, &request);
  ReadStructured(fields, &request);
  // A format is for messages, and a forced call is none: clients send both.
  if (request.must_call && request.structured.is_format) request.structured = {};
  if (request.must_call && request.structured.kind != StructuredAnswer::Kind::kNone) {
    throw Refused{InvalidParameter("tool_choice", "'tool_choice' asks for a call, and '" +
                                                      request.structured.param +
                                                      "' for another answer")};
  }
  request.skip_special_tokens = fields.Bool("skip_special_tokens").value_or(true);
  const bool is_older = endpoint == Endpoint::kChat || endpoint == Endpoint::kCompletions;
  if (is_older) ReadBoth(fields, &request);
  if (endpoint == Endpoint::kResponses) request.repeated_json = RepeatedFields(root);
  request.ignored = fields.Rest(unknown);
  return request;
}

}  // namespace

RequestResult<CompletionRequest> ParseCompletionRequest(Endpoint endpoint, std::string_view body,
                                                        UnknownParameters unknown) {
  try {
    const Json root = ParseBody(body);
    return Read(endpoint, root, unknown);
  } catch (const Refused& refused) {
    return refused.error;
  }
}

}  // namespace janus::gateway
