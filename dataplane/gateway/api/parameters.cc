#include "dataplane/gateway/api/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace janus::gateway {

namespace {

using Kind = Parameter::Kind;
constexpr uint8_t kChat = Parameter::kChat;
constexpr uint8_t kText = Parameter::kCompletions;
constexpr uint8_t kBoth = Parameter::kBoth;

constexpr Parameter Bool(std::string_view name, uint8_t endpoints, std::string_view absent,
                         std::string_view notes = {}) {
  return {
      .name = name, .endpoints = endpoints, .kind = Kind::kBool, .absent = absent, .notes = notes};
}
constexpr Parameter Integer(std::string_view name, uint8_t endpoints, double least, double most,
                            std::string_view absent, std::string_view notes = {}) {
  return {.name = name,
          .endpoints = endpoints,
          .kind = Kind::kInteger,
          .least = least,
          .most = most,
          .absent = absent,
          .notes = notes};
}
constexpr Parameter Number(std::string_view name, double least, double most,
                           std::string_view absent, std::string_view notes = {}) {
  return {.name = name,
          .kind = Kind::kNumber,
          .least = least,
          .most = most,
          .absent = absent,
          .notes = notes};
}
constexpr Parameter NumberAbove(std::string_view name, double least, double most,
                                std::string_view absent, std::string_view notes = {}) {
  Parameter out = Number(name, least, most, absent, notes);
  out.is_above_least = true;
  return out;
}
constexpr Parameter Other(std::string_view name, uint8_t endpoints, std::string_view values,
                          std::string_view absent, std::string_view notes = {}) {
  return {.name = name, .endpoints = endpoints, .values = values, .absent = absent, .notes = notes};
}
constexpr Parameter Neutral(std::string_view name, std::string_view values) {
  return {.name = name, .kind = Kind::kNeutral, .values = values};
}
constexpr Parameter Ignored(std::string_view name) {
  return {.name = name, .kind = Kind::kIgnored};
}

constexpr double kMost = static_cast<double>(kMostTokens);
constexpr double kMostInt32 = 2147483647.0;

constexpr auto kParameters = std::to_array<Parameter>({
    Other("model", kBoth, "a string", "refused", "a name of the served model; any other gives 404"),
    Other("messages", kChat, "a list of messages", "refused",
          "roles and text as the chat template takes them; content may be null or absent in an "
          "assistant's message"),
    Other("prompt", kText, "text, token ids, or a list of at most 128 of either", "refused"),
    Bool("add_generation_prompt", kChat, "true"),
    Bool("continue_final_message", kChat, "false",
         "the answer continues the last message; not with `add_generation_prompt`"),
    Other("tools", kChat, "a list of at most 128 functions", "none",
          "given to the chat template; calls in the answer are parsed in the model's format"),
    Other("tool_choice", kChat, "auto, none, required, or a function by name", "auto",
          "a forced call fits the tool's schema"),
    Bool("parallel_tool_calls", kChat, "true", "false: only the first call is returned"),
    Other("chat_template_kwargs", kChat, "an object", "none", "variables of the chat template"),
    Other("reasoning_effort", kChat, "a string", "none",
          "a variable of the chat template; refused where the template does not read it"),
    Bool("add_special_tokens", kBoth, "text: true, chat: false"),
    Integer("truncate_prompt_tokens", kBoth, -1, kMost, "none",
            "keeps this many of the prompt's last tokens; -1: as many as fit"),
    Integer("n", kBoth, 1, kMaxChoices, "1",
            "answers for each prompt; each has the next higher seed"),
    Integer("best_of", kBoth, 1, kMaxChoices, "`n`", "must equal `n`"),
    Integer("max_tokens", kBoth, 0, kMost, "text: 16, chat: what fits",
            "prompt and answer together must fit the model's context; 0 with `echo` or "
            "`prompt_logprobs`"),
    Integer("min_tokens", kBoth, 0, kMost, "0",
            "no end token or stop string ends the answer before this many"),
    Integer("max_completion_tokens", kChat, 1, kMost, "`max_tokens`",
            "the newer name of `max_tokens`"),
    Number("temperature", 0, 2, "generation_config.json, else 1", "0 is greedy"),
    NumberAbove("top_p", 0, 1, "generation_config.json, else 1"),
    Integer("top_k", kBoth, -1, kMostInt32, "generation_config.json, else all", "0 and -1: all"),
    Number("min_p", 0, 1, "0",
           "tokens below this share of the likeliest one's probability are never drawn"),
    Number("frequency_penalty", -2, 2, "0",
           "subtracted from a token's logit for each time that the answer has it"),
    Number("presence_penalty", -2, 2, "0",
           "subtracted once from the logit of each token in the answer"),
    NumberAbove("repetition_penalty", 0, 100, "1",
                "divides positive and multiplies negative logits of tokens in prompt or answer"),
    Other("logit_bias", kBoth, "an object of at most 1024 token ids, each with -100 to 100",
          "none"),
    Other("seed", kBoth, "an integer of 64 bits", "drawn",
          "the same seed gives the same answer, whatever else runs"),
    Other("stop", kBoth, "a string or a list of at most 16 strings, none of them empty", "none",
          "each at most 4096 bytes; also found across tokens"),
    Bool("include_stop_str_in_output", kBoth, "false"),
    Other("stop_token_ids", kBoth, "a list of at most 64 token ids", "none"),
    Bool("ignore_eos", kBoth, "false", "the model's end tokens do not end the answer"),
    Bool("skip_special_tokens", kBoth, "true"),
    Other("response_format", kBoth, "an object: type text, json_object or json_schema", "text",
          "only `max_tokens` cuts such an answer"),
    Other("structured_outputs", kBoth, "an object: json, json_object, regex, choice or grammar",
          "none", "a grammar is Lark (llguidance's) or GBNF"),
    Other("guided_json", kBoth, "a JSON schema", "none", "older names of `structured_outputs`"),
    Other("guided_regex", kBoth, "a string", "none"),
    Other("guided_choice", kBoth, "a list of 1 to 1024 strings", "none"),
    Other("guided_grammar", kBoth, "a string", "none"),
    Bool("stream", kBoth, "false", "server-sent events, `[DONE]` at the end"),
    Other("stream_options", kBoth, "an object", "none",
          "`include_usage`, and `continuous_usage_stats`: usage in every chunk"),
    Bool("logprobs", kChat, "false"),
    Integer("top_logprobs", kChat, 0, 20, "0", "needs `logprobs`"),
    Integer("logprobs", kText, 0, 5, "none", "likeliest tokens shown for each token"),
    Integer("prompt_logprobs", kBoth, -1, 20, "none",
            "likeliest tokens shown for each prompt token; -1: none; not with "
            "`stream`"),
    Bool("echo", kText, "false", "the answer begins with the prompt; `logprobs` cover it too"),
    Bool("return_token_ids", kBoth, "false"),
    Bool("logits_hash", kBoth, "false",
         "a 64-bit hash of each position's logits; needs `--debug-logits-hash`"),
    Neutral("suffix", "[\"\"]"),
    Neutral("length_penalty", "[1]"),
    Neutral("use_beam_search", "[false]"),
    Neutral("spaces_between_special_tokens", "[true]"),
    Neutral("functions", "[[]]"),
    Neutral("function_call", "[\"none\", \"auto\"]"),
    Neutral("modalities", "[[\"text\"]]"),
    Neutral("audio", "[]"),
    Neutral("prediction", "[]"),
    Neutral("verbosity", "[]"),
    Neutral("web_search_options", "[]"),
    Ignored("user"),
    Ignored("metadata"),
    Ignored("store"),
    Ignored("service_tier"),
    Ignored("safety_identifier"),
    Ignored("prompt_cache_key"),
    Ignored("prompt_cache_retention"),
    Ignored("priority"),
    Ignored("request_id"),
    Ignored("cache_prompt"),
    Ignored("cache_salt"),
    Ignored("thinking"),
    Ignored("return_tokens_as_token_ids"),
});

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), value == std::floor(value) ? "%.0f" : "%g", value);
  return text;
}

std::string EndpointsOf(const Parameter& parameter) {
  if (parameter.endpoints == kChat) return "chat";
  return parameter.endpoints == kText ? "text" : "both";
}

std::string NamesOf(Kind kind) {
  std::string out;
  for (const Parameter& parameter : kParameters) {
    if (parameter.kind != kind) continue;
    out += (out.empty() ? "`" : ", `") + std::string(parameter.name) + "`";
    if (kind != Kind::kNeutral) continue;
    const std::string_view list = parameter.values.substr(1, parameter.values.size() - 2);
    if (!list.empty()) out += " (`" + std::string(list) + "`)";
  }
  return out;
}

}  // namespace

std::span<const Parameter> Parameters() {
  return kParameters;
}

const Parameter* FindParameter(std::string_view name, Endpoint endpoint) {
  const auto found = std::ranges::find_if(kParameters, [&](const Parameter& parameter) {
    return parameter.name == name && parameter.IsOf(endpoint);
  });
  return found == kParameters.end() ? nullptr : &*found;
}

std::string WantedOf(const Parameter& parameter) {
  const std::string least = NumberText(parameter.least), most = NumberText(parameter.most);
  switch (parameter.kind) {
    case Kind::kBool:
      return "true or false";
    case Kind::kInteger:
      return "an integer between " + least + " and " + most;
    case Kind::kNumber:
      return parameter.is_above_least ? "a number above " + least + " and at most " + most
                                      : "a number between " + least + " and " + most;
    default:
      return std::string(parameter.values);
  }
}

std::string ParameterTable() {
  std::string out =
      "| parameter | endpoint | values | if absent | notes |\n|---|---|---|---|---|\n";
  for (const Parameter& parameter : kParameters) {
    if (parameter.kind == Kind::kNeutral || parameter.kind == Kind::kIgnored) continue;
    out += "| `" + std::string(parameter.name) + "` | " + EndpointsOf(parameter) + " | " +
           WantedOf(parameter) + " | " + std::string(parameter.absent) + " | " +
           std::string(parameter.notes) + " |\n";
  }
  out += "\nIgnored, whatever their value: " + NamesOf(Kind::kIgnored) + ".\n";
  out += "\nRefused, unless absent, null or the value in parentheses: " + NamesOf(Kind::kNeutral) +
         ".\n";
  return out;
}

}  // namespace janus::gateway
