#include "dataplane/gateway/prepare.h"

#include <algorithm>

namespace janus::gateway {

namespace {

// OpenAI's default where the endpoint completes a text; a chat may fill the context.
constexpr int64_t kDefaultCompletionTokens = 16;

std::string Field(const CompletionRequest& request) {
  return request.endpoint == Endpoint::kChat ? "messages" : "prompt";
}

RequestError FromStatus(const Status& status, const CompletionRequest& request) {
  if (status.code() == StatusCode::kInvalidArgument ||
      status.code() == StatusCode::kResourceExhausted) {
    return InvalidParameter(Field(request), status.message());
  }
  return {500, "api_error", "internal_error", "", status.message()};
}

RequestResult<std::vector<int32_t>> ChatTokens(const ServedModel& model,
                                               const CompletionRequest& request, WallTime now) {
  if (!model.text.chat_template) {
    return RequestError{
        400, "invalid_request_error", "no_chat_template", "messages",
        "the model '" + model.name +
            "' has no chat template: use /v1/completions, or start the gateway with "
            "--chat-template FILE"};
  }
  Result<std::string> text = model.text.chat_template->Render(
      request.messages_json, request.add_generation_prompt, now, request.template_variables_json);
  if (!text.ok()) return FromStatus(text.status(), request);
  // The template writes the special tokens itself.
  Result<std::vector<int32_t>> ids =
      model.text.tokenizer->Encode(*text, request.add_special_tokens.value_or(false));
  if (!ids.ok()) return FromStatus(ids.status(), request);
  return *std::move(ids);
}

RequestResult<std::vector<int32_t>> PromptTokens(const ServedModel& model,
                                                 const CompletionRequest& request,
                                                 const CompletionRequest::Prompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  Result<std::vector<int32_t>> ids = model.text.tokenizer->Encode(
      std::get<std::string>(prompt), request.add_special_tokens.value_or(true));
  if (!ids.ok()) return FromStatus(ids.status(), request);
  return *std::move(ids);
}

std::optional<RequestError> CheckTokens(const std::vector<int32_t>& ids,
                                        const PrepareBounds& bounds,
                                        const CompletionRequest& request) {
  if (ids.empty()) return InvalidParameter(Field(request), "the prompt has no token");
  for (const int32_t id : ids) {
    if (id < bounds.vocabulary_size) continue;
    return InvalidParameter(Field(request), "token id " + std::to_string(id) +
                                                " is not below the model's vocabulary of " +
                                                std::to_string(bounds.vocabulary_size));
  }
  return std::nullopt;
}

// 400 when prompt and answer together pass the context.
RequestResult<int64_t> MaxTokens(int64_t prompt_tokens, const PrepareBounds& bounds,
                                 const CompletionRequest& request) {
  const int64_t room = bounds.max_context_tokens - prompt_tokens;
  const std::string context = "the model's context is " +
                              std::to_string(bounds.max_context_tokens) +
                              " tokens, the prompt has " + std::to_string(prompt_tokens);
  RequestError too_long = InvalidParameter(Field(request), context);
  too_long.code = "context_length_exceeded";
  if (room < 1) {
    too_long.message += ": shorten it";
    return too_long;
  }
  if (request.max_tokens && *request.max_tokens > room) {
    too_long.param = "max_tokens";
    too_long.message += ": 'max_tokens' can be at most " + std::to_string(room) + ", not " +
                        std::to_string(*request.max_tokens);
    return too_long;
  }
  if (request.max_tokens) return *request.max_tokens;
  return request.endpoint == Endpoint::kChat ? room : std::min(room, kDefaultCompletionTokens);
}

GenerationRequest Sampling(const ServedModel& model, const CompletionRequest& request) {
  const GenerationDefaults& defaults = model.defaults;
  GenerationRequest out;
  out.temperature = request.temperature.value_or(defaults.temperature.value_or(1));
  out.top_k = request.top_k.value_or(defaults.top_k.value_or(0));
  out.top_p = request.top_p.value_or(defaults.top_p.value_or(1));
  // A checkpoint's top_p of 0 can only mean the likeliest token.
  if (out.top_p <= 0) {
    out.top_p = 1;
    out.top_k = 1;
  }
  if (!request.ignore_eos) {
    out.stop_tokens.assign(defaults.eos_tokens.begin(), defaults.eos_tokens.end());
  }
  for (const int32_t id : request.stop_token_ids) {
    if (std::ranges::find(out.stop_tokens, id) == out.stop_tokens.end()) {
      out.stop_tokens.push_back(id);
    }
  }
  // What the client listed counts also when the model's own ends are ignored.
  out.ignore_eos = out.stop_tokens.empty();
  out.logprobs = request.logprobs.value_or(-1);
  out.want_logits_hash = request.logits_hash;
  return out;
}

}  // namespace

int64_t MemoryBytes(const PreparedRequest& prepared) {
  constexpr int64_t kCallBytes = 16 << 10;  // measured 9 KiB, and the stream's free output
  constexpr int64_t kChoiceBytes = 2 << 10;
  // Kept, in a message, and that message serialized.
  const int64_t copies = prepared.request.return_token_ids ? 4 : 3;
  int64_t bytes = kCallBytes;
  for (const GenerationRequest& generation : prepared.generations) {
    bytes +=
        kChoiceBytes + copies * static_cast<int64_t>(sizeof(int32_t) * generation.prompt.size());
  }
  return bytes;
}

RequestResult<PreparedRequest> Prepare(const ServedModel& model, const PrepareBounds& bounds,
                                       Endpoint endpoint, const std::string& body,
                                       uint64_t draw_seed, WallTime now) {
  RequestResult<CompletionRequest> parsed = ParseCompletionRequest(endpoint, body);
  if (auto* error = std::get_if<RequestError>(&parsed)) return std::move(*error);
  PreparedRequest out{.request = std::move(std::get<CompletionRequest>(parsed))};
  const CompletionRequest& request = out.request;
  if (request.model != model.name) {
    return RequestError{
        404, "invalid_request_error", "model_not_found", "model",
        "the model '" + request.model + "' does not exist; this is '" + model.name + "'"};
  }
  if (request.logits_hash && !model.logits_hash_allowed) {
    return UnsupportedParameter("logits_hash",
                                "'logits_hash' needs a gateway started with --debug-logits-hash");
  }
  const size_t prompts = endpoint == Endpoint::kChat ? 1 : request.prompts.size();
  for (size_t i = 0; i < prompts; ++i) {
    RequestResult<std::vector<int32_t>> ids =
        endpoint == Endpoint::kChat ? ChatTokens(model, request, now)
                                    : PromptTokens(model, request, request.prompts[i]);
    if (auto* error = std::get_if<RequestError>(&ids)) return std::move(*error);
    GenerationRequest generation = Sampling(model, request);
    generation.prompt = std::move(std::get<std::vector<int32_t>>(ids));
    if (auto error = CheckTokens(generation.prompt, bounds, request)) return std::move(*error);
    RequestResult<int64_t> max_tokens =
        MaxTokens(static_cast<int64_t>(generation.prompt.size()), bounds, request);
    if (auto* error = std::get_if<RequestError>(&max_tokens)) return std::move(*error);
    generation.max_tokens = std::get<int64_t>(max_tokens);
    generation.seed = request.seed.value_or(draw_seed + i);
    out.generations.push_back(std::move(generation));
  }
  return out;
}

}  // namespace janus::gateway
