#include "dataplane/gateway/tokenize.h"

#include "dataplane/gateway/api/fields.h"
#include "dataplane/gateway/api/prompts.h"

namespace janus::gateway {

namespace {

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Reads the body like a completion request, which defines how a prompt is formed.
RequestResult<CompletionRequest> AsRequest(const ServedModel& model, Json root) {
  const auto called = root.find("model");
  if (called == root.end() || called->is_null()) root["model"] = model.name;
  const Endpoint endpoint = root.contains("messages") ? Endpoint::kChat : Endpoint::kCompletions;
  return ParseCompletionRequest(endpoint, Dump(root), UnknownParameters::kIgnore);
}

std::string TokenText(const ServedModel& model, int32_t token) {
  const Result<std::string> text = model.text.tokenizer->IdToToken(token);
  return text.ok() ? *text : std::string();
}

RequestResult<std::string> TokenizeJson(const ServedModel& model, int64_t max_context_tokens,
                                        const Json& root, WallTime now) {
  RequestResult<CompletionRequest> request = AsRequest(model, root);
  if (auto* error = std::get_if<RequestError>(&request)) return std::move(*error);
  RequestResult<std::vector<int32_t>> tokens =
      FirstPrompt(model, std::get<CompletionRequest>(request), now);
  if (auto* error = std::get_if<RequestError>(&tokens)) return std::move(*error);
  const auto& ids = std::get<std::vector<int32_t>>(tokens);
  Json texts = nullptr;
  if (root.value("return_token_strs", Json()) == true) {
    texts = Json::array();
    for (const int32_t id : ids) texts.push_back(TokenText(model, id));
  }
  return Dump({{"count", ids.size()},
               {"max_model_len", max_context_tokens},
               {"tokens", ids},
               {"token_strs", std::move(texts)}});
}

RequestResult<std::string> CountTokensJson(const ServedModel& model, Json root, WallTime now) {
  root["max_tokens"] = 1;
  RequestResult<CompletionRequest> request =
      ParseCompletionRequest(Endpoint::kMessages, Dump(root), model.unknown_parameters);
  if (auto* error = std::get_if<RequestError>(&request)) return std::move(*error);
  RequestResult<std::vector<int32_t>> tokens =
      FirstPrompt(model, std::get<CompletionRequest>(request), now);
  if (auto* error = std::get_if<RequestError>(&tokens)) return std::move(*error);
  return Dump({{"input_tokens", std::get<std::vector<int32_t>>(tokens).size()}});
}

RequestResult<std::string> DetokenizeJson(const ServedModel& model, const Json& root) {
  const auto called = root.find("model");
  if (called != root.end() && called->is_string() && !model.IsCalled(called->get<std::string>())) {
    return NoSuchModel(model, called->get<std::string>());
  }
  const auto tokens = root.find("tokens");
  if (tokens == root.end() || !tokens->is_array()) {
    Refuse("tokens", "a list of token ids", tokens == root.end() ? Json() : *tokens);
  }
  const Result<std::string> text =
      model.text.tokenizer->Decode(ReadTokenIds(*tokens, "tokens"), /*skip_special_tokens=*/false);
  if (!text.ok()) return InvalidParameter("tokens", text.status().message());
  return Dump({{"prompt", *text}});
}

}  // namespace

RequestResult<std::string> Tokenize(const ServedModel& model, int64_t max_context_tokens,
                                    const std::string& body, WallTime now) {
  try {
    return TokenizeJson(model, max_context_tokens, ParseBody(body), now);
  } catch (const Refused& refused) {
    return refused.error;
  }
}

RequestResult<std::string> CountTokens(const ServedModel& model, const std::string& body,
                                       WallTime now) {
  try {
    return CountTokensJson(model, ParseBody(body), now);
  } catch (const Refused& refused) {
    return refused.error;
  }
}

RequestResult<std::string> Detokenize(const ServedModel& model, const std::string& body) {
  try {
    return DetokenizeJson(model, ParseBody(body));
  } catch (const Refused& refused) {
    return refused.error;
  }
}

}  // namespace janus::gateway
