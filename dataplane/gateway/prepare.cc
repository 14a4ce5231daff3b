#include "dataplane/gateway/prepare.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dataplane/gateway/structure/answer_grammar.h"

namespace janus::gateway {

namespace {

// OpenAI's default for completions; a chat may fill the context.
constexpr int64_t kDefaultCompletionTokens = 16;

std::string Field(const CompletionRequest& request) {
  if (request.endpoint == Endpoint::kResponses) return "input";
  return IsChat(request.endpoint) ? "messages" : "prompt";
}

std::string LimitField(const CompletionRequest& request) {
  return request.endpoint == Endpoint::kResponses ? "max_output_tokens" : "max_tokens";
}

RequestError FromStatus(const Status& status, const CompletionRequest& request) {
  if (status.code() == StatusCode::kInvalidArgument ||
      status.code() == StatusCode::kResourceExhausted) {
    return InvalidParameter(Field(request), status.message());
  }
  return {500, "api_error", "internal_error", "", status.message()};
}

// Which parts of the answer are not content. The prompt may have opened the reasoning already.
ChatTextOptions ChatTextOf(const ServedModel& model, const CompletionRequest& request,
                           const std::string& prompt) {
  ChatTextOptions out;
  if (request.reads_tool_calls) out.tools = model.tool_format;
  // With neither of them, the text stays as it is.
  out.is_harmony = model.tool_format == ToolFormat::kHarmony &&
                   (model.reads_reasoning || request.reads_tool_calls);
  out.begins_in_answer = out.is_harmony && request.continue_final_message;
  out.reads_reasoning =
      model.reads_reasoning && (out.is_harmony || !request.continue_final_message);
  const size_t end = prompt.find_last_not_of(" \t\r\n");
  out.begins_in_reasoning = out.reads_reasoning && end != std::string::npos &&
                            std::string_view(prompt).substr(0, end + 1).ends_with("<think>");
  return out;
}

// The variable by which a template switches reasoning on and off; empty: it has none.
std::string ThinkingSwitch(const ServedModel& model, const text::ChatTemplate& chat) {
  if (chat.Mentions("enable_thinking")) return "enable_thinking";
  // Harmony's templates have a field of messages with that name.
  const bool is_harmony = model.tool_format == ToolFormat::kHarmony;
  return !is_harmony && chat.Mentions("thinking") ? "thinking" : "";
}

// The client's variables, and those by which parameters reach the template, if it reads them.
RequestResult<std::string> TemplateVariables(const ServedModel& model,
                                             const text::ChatTemplate& chat,
                                             const CompletionRequest& request) {
  using Thinking = CompletionRequest::Thinking;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  if (!request.template_variables_json.empty()) {
    variables = nlohmann::ordered_json::parse(request.template_variables_json);
  }
  if (request.reasoning_effort && chat.Mentions("reasoning_effort")) {
    variables["reasoning_effort"] = *request.reasoning_effort;
  } else if (request.reasoning_effort && !request.is_effort_a_hint) {
    const bool is_nested = request.endpoint == Endpoint::kResponses;
    return UnsupportedParameter(is_nested ? "reasoning.effort" : "reasoning_effort",
                                "the model's chat template does not read 'reasoning_effort'; "
                                "leave it out");
  }
  if (request.thinking != Thinking::kDefault) {
    const std::string name = ThinkingSwitch(model, chat);
    if (!name.empty()) {
      variables.emplace(name, request.thinking == Thinking::kOn);
    } else if (request.thinking == Thinking::kOff && model.reads_reasoning) {
      return UnsupportedParameter(
          "thinking", "the model's chat template cannot switch thinking off; leave it out");
    }
  }
  return variables.empty() ? std::string() : variables.dump();
}

// Removes the template's text behind the last message, as transformers does.
RequestResult<std::string> CutBehindFinalMessage(std::string text,
                                                 const CompletionRequest& request) {
  const std::string& message = request.final_message;
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t first = message.find_first_not_of(kSpace);
  const std::string_view lstripped =
      first == std::string::npos ? std::string_view() : std::string_view(message).substr(first);
  const std::string_view stripped = lstripped.substr(0, lstripped.find_last_not_of(kSpace) + 1);
  const size_t at = text.rfind(stripped);
  if (stripped.empty() || at == std::string::npos) {
    const bool is_asked = request.endpoint == Endpoint::kChat;
    return InvalidParameter(is_asked ? "continue_final_message" : Field(request),
                            stripped.empty()
                                ? "the last message is empty: there is nothing to continue"
                                : "the chat template does not write the last message as it is");
  }
  const bool has_tail = std::string_view(text).substr(at).starts_with(lstripped);
  text.resize(at + (has_tail ? lstripped : stripped).size());
  return text;
}

RequestResult<std::string> ChatText(const ServedModel& model, const CompletionRequest& request,
                                    WallTime now) {
  if (!model.text.chat_template) {
    return RequestError{
        400, "invalid_request_error", "no_chat_template", Field(request),
        "the model '" + model.name +
            "' has no chat template: use /v1/completions, or start the gateway with "
            "--chat-template FILE"};
  }
  const text::ChatTemplate& chat = *model.text.chat_template;
  RequestResult<std::string> variables = TemplateVariables(model, chat, request);
  if (auto* error = std::get_if<RequestError>(&variables)) return std::move(*error);
  const bool parts = !request.part_messages_json.empty() && chat.LoopsOverContent();
  Result<std::string> text = chat.Render(parts ? request.part_messages_json : request.messages_json,
                                         request.add_generation_prompt, now,
                                         std::get<std::string>(variables), request.tools_json);
  if (!text.ok()) return FromStatus(text.status(), request);
  if (!request.continue_final_message) return *std::move(text);
  return CutBehindFinalMessage(*std::move(text), request);
}

RequestResult<std::vector<int32_t>> Tokens(const ServedModel& model,
                                           const CompletionRequest& request,
                                           const std::string& text, bool add_special_tokens) {
  Result<std::vector<int32_t>> ids =
      model.text.tokenizer->Encode(text, request.add_special_tokens.value_or(add_special_tokens));
  if (!ids.ok()) return FromStatus(ids.status(), request);
  return *std::move(ids);
}

RequestResult<std::vector<int32_t>> PromptTokens(const ServedModel& model,
                                                 const CompletionRequest& request, size_t prompt,
                                                 WallTime now, ChatTextOptions* chat_text) {
  if (IsChat(request.endpoint)) {
    RequestResult<std::string> text = ChatText(model, request, now);
    if (auto* error = std::get_if<RequestError>(&text)) return std::move(*error);
    *chat_text = ChatTextOf(model, request, std::get<std::string>(text));
    // The template writes the special tokens itself.
    return Tokens(model, request, std::get<std::string>(text), false);
  }
  const CompletionRequest::Prompt& given = request.prompts[prompt];
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&given)) return *ids;
  return Tokens(model, request, std::get<std::string>(given), true);
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

void Truncate(const PrepareBounds& bounds, const CompletionRequest& request,
              std::vector<int32_t>* ids) {
  if (!request.truncate_prompt_tokens) return;
  const int64_t fits = bounds.max_context_tokens - request.max_tokens.value_or(1);
  const int64_t wanted =
      *request.truncate_prompt_tokens == -1 ? fits : *request.truncate_prompt_tokens;
  const auto kept = static_cast<size_t>(std::max<int64_t>(wanted, 1));
  if (ids->size() > kept) ids->erase(ids->begin(), ids->end() - static_cast<ptrdiff_t>(kept));
}

// 400 if prompt and answer together exceed the context. Client libraries recognize the error by its
// first sentence, which is OpenAI's.
RequestResult<int64_t> MaxTokens(int64_t prompt_tokens, const PrepareBounds& bounds,
                                 const CompletionRequest& request) {
  const int64_t room = bounds.max_context_tokens - prompt_tokens;
  RequestError too_long = InvalidParameter(
      Field(request), "This model's maximum context length is " +
                          std::to_string(bounds.max_context_tokens) + " tokens. However, ");
  too_long.code = "context_length_exceeded";
  if (room < 1) {
    too_long.message +=
        "the prompt has " + std::to_string(prompt_tokens) + " tokens. Please shorten it.";
    return too_long;
  }
  if (request.max_tokens && *request.max_tokens > room) {
    // Clients of this API must send a limit, and many send one for another model.
    if (request.endpoint == Endpoint::kMessages) return room;
    const std::string limit = LimitField(request);
    too_long.param = limit;
    too_long.message += "you requested " + std::to_string(prompt_tokens + *request.max_tokens) +
                        " tokens (" + std::to_string(prompt_tokens) + " in the prompt, " +
                        std::to_string(*request.max_tokens) + " in '" + limit +
                        "'). Please lower '" + limit + "' to at most " + std::to_string(room) +
                        ", or shorten the prompt.";
    return too_long;
  }
  // If no token is wanted, one is drawn and dropped.
  if (request.max_tokens) return std::max<int64_t>(*request.max_tokens, 1);
  return IsChat(request.endpoint) ? room : std::min(room, kDefaultCompletionTokens);
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
  // Stop tokens from the client count even if the model's own end tokens are ignored.
  out.ignore_eos = out.stop_tokens.empty();
  out.logit_bias = request.logit_bias;
  out.min_tokens = request.min_tokens;
  out.repetition_penalty = request.repetition_penalty;
  out.frequency_penalty = request.frequency_penalty;
  out.presence_penalty = request.presence_penalty;
  out.min_p = request.min_p;
  out.logprobs = request.logprobs.value_or(-1);
  // An echoed prompt gets as many log probabilities as its answer.
  out.prompt_logprobs =
      std::max(request.prompt_logprobs.value_or(-1), request.echo ? out.logprobs : -1);
  out.want_logits_hash = request.logits_hash;
  return out;
}

// All of them may travel in one message, and gRPC limits its size.
std::optional<RequestError> CheckPromptLogprobs(const GenerationRequest& generation) {
  constexpr int64_t kMost = 250'000;
  if (generation.prompt_logprobs < 0) return std::nullopt;
  const int64_t numbers =
      static_cast<int64_t>(generation.prompt.size()) * (generation.prompt_logprobs + 1);
  if (numbers <= kMost) return std::nullopt;
  return InvalidParameter("prompt_logprobs",
                          "the log probabilities of the prompt are " + std::to_string(numbers) +
                              " numbers, at most " + std::to_string(kMost) +
                              " are sent: ask for fewer likeliest tokens, or shorten the prompt");
}

std::optional<RequestError> TakeRoutedExperts(const PrepareBounds& bounds,
                                              const CompletionRequest& request,
                                              GenerationRequest* generation) {
  if (!request.routed_from) return std::nullopt;
  const auto prompt = static_cast<int64_t>(generation->prompt.size());
  if (bounds.routed_width == 0) {
    return UnsupportedParameter(
        "return_routed_experts",
        "'return_routed_experts': the service's instances do not report experts; leave it out");
  }
  if (*request.routed_from > prompt) {
    return InvalidParameter("routed_experts_start_len",
                            "'routed_experts_start_len' of " +
                                std::to_string(*request.routed_from) + ": the prompt has " +
                                std::to_string(prompt) + " tokens, give at most as many");
  }
  generation->routed_from = *request.routed_from;
  generation->routed_width = bounds.routed_width;
  return std::nullopt;
}

// Checks the experts of all answers, which the gateway keeps until it writes them.
std::optional<RequestError> CheckRoutedExperts(const std::vector<GenerationRequest>& generations) {
  int64_t ids = 0;
  for (const GenerationRequest& generation : generations) {
    if (generation.routed_from < 0) return std::nullopt;
    const int64_t positions = static_cast<int64_t>(generation.prompt.size()) +
                              generation.max_tokens - 1 - generation.routed_from;
    ids += positions * generation.routed_width;
  }
  if (ids <= kMostRoutedExperts) return std::nullopt;
  return InvalidParameter(
      "return_routed_experts",
      "'return_routed_experts' may return " + std::to_string(ids) + " numbers (" +
          std::to_string(generations[0].routed_width) + " for each token), at most " +
          std::to_string(kMostRoutedExperts) +
          " are sent: lower 'max_tokens' or 'n', or raise 'routed_experts_start_len'");
}

// The generation of the answers to one prompt, without their seeds.
RequestResult<GenerationRequest> PreparePrompt(const ServedModel& model,
                                               const PrepareBounds& bounds,
                                               const CompletionRequest& request, size_t prompt,
                                               WallTime now, ChatTextOptions* chat_text) {
  RequestResult<std::vector<int32_t>> tokens = PromptTokens(model, request, prompt, now, chat_text);
  if (auto* error = std::get_if<RequestError>(&tokens)) return std::move(*error);
  GenerationRequest generation = Sampling(model, request);
  generation.prompt = std::move(std::get<std::vector<int32_t>>(tokens));
  Truncate(bounds, request, &generation.prompt);
  if (auto error = CheckTokens(generation.prompt, bounds, request)) return std::move(*error);
  if (auto error = CheckPromptLogprobs(generation)) return std::move(*error);
  for (const auto& [token, bias] : generation.logit_bias) {
    if (token < bounds.vocabulary_size) continue;
    return InvalidParameter("logit_bias", "token id " + std::to_string(token) +
                                              " is not below the model's vocabulary of " +
                                              std::to_string(bounds.vocabulary_size));
  }
  RequestResult<int64_t> max_tokens =
      MaxTokens(static_cast<int64_t>(generation.prompt.size()), bounds, request);
  if (auto* error = std::get_if<RequestError>(&max_tokens)) return std::move(*error);
  generation.max_tokens = std::get<int64_t>(max_tokens);
  if (auto error = TakeRoutedExperts(bounds, request, &generation)) return std::move(*error);
  return generation;
}

// Compiles the grammar here too, so that the client learns what is wrong with it.
RequestResult<std::shared_ptr<const std::string>> Grammar(const ServedModel& model,
                                                          const CompletionRequest& request,
                                                          const ChatTextOptions& chat_text) {
  GrammarContext context{.tokenizer = *model.text.tokenizer, .chat_text = chat_text};
  if (model.text.chat_template) context.chat_template = model.text.chat_template->source();
  RequestResult<std::string> text = AnswerGrammar(context, request);
  if (auto* error = std::get_if<RequestError>(&text)) return std::move(*error);
  auto grammar = std::make_shared<const std::string>(std::move(std::get<std::string>(text)));
  if (grammar->empty()) return std::shared_ptr<const std::string>();
  const std::string param = request.must_call ? "tools" : request.structured.param;
  if (model.grammars == nullptr) {
    return UnsupportedParameter(param, "this gateway cannot constrain answers");
  }
  const Status compiled = model.grammars->Compile(*grammar).status();
  if (!compiled.ok()) {
    return InvalidParameter(param, "'" + param + "' cannot be followed: " + compiled.message());
  }
  return grammar;
}

// If there are several prompts, the error names the one at fault.
RequestError NameThePrompt(RequestError error, const CompletionRequest& request, size_t prompt) {
  if (request.prompts.size() < 2 || error.param == "max_tokens") return error;
  error.param = "prompt[" + std::to_string(prompt) + "]";
  error.message = error.param + ": " + error.message;
  return error;
}

}  // namespace

bool ServedModel::IsCalled(std::string_view called) const {
  return called == name || std::ranges::find(aliases, called) != aliases.end();
}

RequestError NoSuchModel(const ServedModel& model, const std::string& called) {
  std::string names = "'" + model.name + "'";
  for (const std::string& alias : model.aliases) names += " or '" + alias + "'";
  return {404, "invalid_request_error", "model_not_found", "model",
          "the model '" + called + "' does not exist; this is " + names};
}

int64_t MemoryBytes(const PreparedRequest& prepared) {
  constexpr int64_t kCallBytes = 16 << 10;  // measured 9 KiB, and the stream's free output
  constexpr int64_t kChoiceBytes = 2 << 10;
  // Kept, in a message, and in that message's serialized form.
  const CompletionRequest& request = prepared.request;
  const bool is_shown = request.return_token_ids || request.echo || request.prompt_logprobs;
  const int64_t copies = is_shown ? 4 : 3;
  // The text that the answers repeat is printed in up to two of a stream's events at a time.
  int64_t bytes = kCallBytes + 4 * static_cast<int64_t>(request.repeated_json.size());
  for (const GenerationRequest& generation : prepared.generations) {
    bytes +=
        kChoiceBytes + copies * static_cast<int64_t>(sizeof(int32_t) * generation.prompt.size());
    // Shared, and in each message.
    if (generation.grammar) bytes += 2 * static_cast<int64_t>(generation.grammar->size());
  }
  return bytes;
}

RequestResult<std::vector<int32_t>> FirstPrompt(const ServedModel& model,
                                                const CompletionRequest& request, WallTime now) {
  if (!model.IsCalled(request.model)) return NoSuchModel(model, request.model);
  ChatTextOptions unused;
  return PromptTokens(model, request, 0, now, &unused);
}

RequestResult<PreparedRequest> Prepare(const ServedModel& model, const PrepareBounds& bounds,
                                       Endpoint endpoint, const std::string& body,
                                       uint64_t draw_seed, WallTime now) {
  RequestResult<CompletionRequest> parsed =
      ParseCompletionRequest(endpoint, body, model.unknown_parameters);
  if (auto* error = std::get_if<RequestError>(&parsed)) return std::move(*error);
  PreparedRequest out{.request = std::move(std::get<CompletionRequest>(parsed))};
  const CompletionRequest& request = out.request;
  if (!model.IsCalled(request.model)) return NoSuchModel(model, request.model);
  if (request.logits_hash && !model.logits_hash_allowed) {
    return UnsupportedParameter("logits_hash",
                                "'logits_hash' needs a gateway started with --debug-logits-hash");
  }
  if (request.reads_tool_calls && model.tool_format == ToolFormat::kNone) {
    return UnsupportedParameter(
        "tools",
        "the model's chat template shows no known format of calls; start the gateway with "
        "--tool-parser FORMAT, or send 'tool_choice': 'none'");
  }
  const size_t prompts = IsChat(endpoint) ? 1 : request.prompts.size();
  std::shared_ptr<const std::string> grammar;
  for (size_t i = 0; i < prompts; ++i) {
    RequestResult<GenerationRequest> prompt =
        PreparePrompt(model, bounds, request, i, now, &out.chat_text);
    if (auto* error = std::get_if<RequestError>(&prompt)) {
      return NameThePrompt(std::move(*error), request, i);
    }
    auto& generation = std::get<GenerationRequest>(prompt);
    if (i == 0) {
      auto compiled = Grammar(model, request, out.chat_text);
      if (auto* error = std::get_if<RequestError>(&compiled)) return std::move(*error);
      grammar = std::move(std::get<std::shared_ptr<const std::string>>(compiled));
    }
    generation.grammar = grammar;
    out.is_cut_to_context = request.max_tokens > generation.max_tokens;
    for (int k = 0; k < request.n; ++k) {
      const uint64_t choice = request.seed ? static_cast<uint64_t>(k) : out.generations.size();
      generation.seed = request.seed.value_or(draw_seed) + choice;
      out.generations.push_back(generation);
    }
  }
  if (auto error = CheckRoutedExperts(out.generations)) return std::move(*error);
  return out;
}

}  // namespace janus::gateway
