#include "dataplane/gateway/api/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace janus::gateway {

namespace {

using Kind = Parameter::Kind;
constexpr uint8_t kChat = Parameter::kChat;
constexpr uint8_t kText = Parameter::kCompletions;
constexpr uint8_t kMessages = Parameter::kMessages;
constexpr uint8_t kResponses = Parameter::kResponses;
constexpr uint8_t kBoth = Parameter::kBoth;
constexpr uint8_t kAll = Parameter::kAll;
constexpr uint8_t kChats = kChat | kMessages | kResponses;

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
constexpr Parameter Neutral(std::string_view name, uint8_t endpoints, std::string_view values,
                            std::string_view advice = {}) {
  return {.name = name,
          .endpoints = endpoints,
          .kind = Kind::kNeutral,
          .values = values,
          .notes = advice};
}
constexpr Parameter Neutral(std::string_view name, std::string_view values) {
  return Neutral(name, kBoth, values);
}
constexpr Parameter Ignored(std::string_view name, uint8_t endpoints = kAll) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::kIgnored};
}

constexpr std::string_view kKeepsNothing =
    "this gateway keeps no answers: send the earlier items in 'input'";

constexpr std::string_view kNone;  // nothing, or the usual

constexpr double kMost = static_cast<double>(kMostTokens);
constexpr double kMostInt32 = 2147483647.0;

constexpr auto kParameters = std::to_array<Parameter>({
    Other("model", kAll, "a string", "refused", "a name of the served model"),
    Other("messages", kChat | kMessages, "a list of messages", "refused",
          "content may be null or absent in an assistant's message"),
    Other("system", kMessages, "text, or a list of text blocks", kNone),
    Other("input", kResponses, "text, or a list of items", "refused"),
    Other("instructions", kResponses, "a string", kNone),
    Other("prompt", kText, "text, token ids, or a list of at most 128 of either", "refused"),
    Bool("add_generation_prompt", kChat, "true"),
    Bool("continue_final_message", kChat, "false",
         "the answer continues the last message; not with `add_generation_prompt`"),
    Other("tools", kChats, "a list of at most 128 functions", kNone),
    Other("tool_choice", kChats, "auto, none, required (messages: any), or a function by name",
          "auto", "a forced call fits the tool's schema"),
    Bool("parallel_tool_calls", kChat | kResponses, "true",
         "false: only the first call is returned"),
    Other("chat_template_kwargs", kChats, "an object", kNone, "variables of the chat template"),
    Other("reasoning_effort", kChat, "a string", kNone,
          "a variable of the chat template, which must read it"),
    Other("reasoning", kResponses, "an object", kNone,
          "`effort`: as `reasoning_effort`; summaries are not made"),
    Other("thinking", kMessages, "an object: type enabled, adaptive or disabled", "disabled"),
    Bool("add_special_tokens", kBoth, "text: true, chat: false"),
    Integer("truncate_prompt_tokens", kBoth, -1, kMost, kNone,
            "keeps this many of the prompt's last tokens; -1: as many as fit"),
    Integer("n", kBoth, 1, kMaxChoices, "1",
            "answers for each prompt; each has the next higher seed"),
    Integer("best_of", kBoth, 1, kMaxChoices, "`n`", "must equal `n`"),
    Integer("max_tokens", kBoth, 0, kMost, "text: 16, chat: what fits",
            "must fit the context with the prompt; 0 with `echo` or `prompt_logprobs`"),
    Integer("max_tokens", kMessages, 1, kMost, "refused"),
    Integer("max_output_tokens", kResponses, 1, kMost, "what fits"),
    Integer("min_tokens", kAll, 0, kMost, "0", "no end before this many"),
    Integer("max_completion_tokens", kChat, 1, kMost, "`max_tokens`",
            "the newer name of `max_tokens`"),
    Number("temperature", 0, 2, "generation_config.json, else 1", "0 is greedy"),
    NumberAbove("top_p", 0, 1, "generation_config.json, else 1"),
    Integer("top_k", kAll, -1, kMostInt32, "generation_config.json, else all", "0 and -1: all"),
    Number("min_p", 0, 1, "0", "least share of the likeliest token's probability"),
    Number("frequency_penalty", -2, 2, "0", "subtracted from a token's logit for each use"),
    Number("presence_penalty", -2, 2, "0",
           "subtracted once from the logit of each token in the answer"),
    NumberAbove("repetition_penalty", 0, 100, "1",
                "divides positive and multiplies negative logits of tokens in prompt or answer"),
    Other("logit_bias", kAll, "an object of at most 1024 token ids, each with -100 to 100", kNone),
    Other("seed", kAll, "an integer of 64 bits", "drawn",
          "the same seed gives the same answer, whatever else runs"),
    Other("stop", kBoth, "a string or a list of at most 16 strings, none of them empty", kNone,
          "each at most 4096 bytes"),
    Other("stop_sequences", kMessages, "a list of at most 16 strings, none of them empty", kNone),
    Bool("include_stop_str_in_output", kBoth, "false"),
    Other("stop_token_ids", kAll, "a list of at most 64 token ids", kNone),
    Bool("ignore_eos", kAll, "false", "the model's end tokens do not end the answer"),
    Bool("skip_special_tokens", kAll, "true"),
    Other("response_format", kBoth, "an object: type text, json_object or json_schema", "text",
          "only `max_tokens` cuts such an answer"),
    Other("output_config", kMessages, "an object", kNone,
          "`format`: type json_schema; `effort`: for a template that reads `reasoning_effort`"),
    Other("text", kResponses, "an object", kNone,
          "`format`: type text, json_object or json_schema"),
    Other("structured_outputs", kAll, "an object: json, json_object, regex, choice or grammar",
          kNone, "a grammar is Lark (llguidance's) or GBNF"),
    Other("guided_json", kAll, "a JSON schema", kNone, "older names of `structured_outputs`"),
    Other("guided_regex", kAll, "a string", kNone),
    Other("guided_choice", kAll, "a list of 1 to 1024 strings", kNone),
    Other("guided_grammar", kAll, "a string", kNone),
    Bool("stream", kAll, "false", "server-sent events"),
    Other("stream_options", kBoth | kResponses, "an object", kNone,
          "`include_usage`, and `continuous_usage_stats`: usage in every chunk"),
    Bool("logprobs", kChat, "false"),
    Integer("top_logprobs", kChat | kResponses, 0, 20, "0",
            "needs `logprobs`, or `include` of them"),
    Integer("logprobs", kText, 0, 5, kNone, "likeliest tokens shown for each token"),
    Integer("prompt_logprobs", kBoth, -1, 20, kNone,
            "likeliest tokens shown for each prompt token; -1: none; not with "
            "`stream`"),
    Other("include", kResponses, "a list", kNone,
          "message.output_text.logprobs, or reasoning.encrypted_content, which adds nothing"),
    Bool("echo", kText, "false", "the answer begins with the prompt; `logprobs` cover it too"),
    Bool("return_token_ids", kBoth, "false"),
    Bool("return_routed_experts", kBoth, "false", "at most 16777216 numbers; see below"),
    Integer("routed_experts_start_len", kBoth, 0, kMost, "0", "positions left out"),
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
    Neutral("previous_response_id", kResponses, "[]", kKeepsNothing),
    Neutral("conversation", kResponses, "[]", kKeepsNothing),
    Neutral("background", kResponses, "[false]", "ask for a stream, and keep the connection"),
    Neutral("prompt", kResponses, "[]", "send its text in 'input'"),
    Neutral("max_tool_calls", kResponses, "[]",
            "it counts calls of built-in tools, of which there are none"),
    Neutral("truncation", kResponses, "[\"disabled\"]", "leave earlier items out of 'input'"),
    Neutral("container", kMessages, "[]"),
    Neutral("mcp_servers", kMessages, "[[]]",
            "call the server in the client, and give its tools as 'tools'"),
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
    Ignored("cache_control"),
    Ignored("context_management"),
    Ignored("inference_geo"),
    Ignored("thinking", kBoth),
    Ignored("return_tokens_as_token_ids"),
});

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), value == std::floor(value) ? "%.0f" : "%g", value);
  return text;
}

std::string EndpointsOf(const Parameter& parameter) {
  switch (parameter.endpoints) {
    case kBoth:
      return "both";
    case kChats:
      return "chats";
    case kAll:
      return "all";
  }
  constexpr std::pair<uint8_t, std::string_view> kNames[] = {
      {kChat, "chat"}, {kText, "text"}, {kMessages, "messages"}, {kResponses, "responses"}};
  std::string out;
  for (const auto& [bit, name] : kNames) {
    if ((parameter.endpoints & bit) == 0) continue;
    out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
}

// Those with exactly these endpoints.
std::string NamesOf(Kind kind, uint8_t endpoints) {
  std::string out;
  for (const Parameter& parameter : kParameters) {
    if (parameter.kind != kind || parameter.endpoints != endpoints) continue;
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
  std::string out = "| parameter | endpoint | values (if absent) | notes |\n|---|---|---|---|\n";
  for (const Parameter& parameter : kParameters) {
    if (parameter.kind == Kind::kNeutral || parameter.kind == Kind::kIgnored) continue;
    out += "| `" + std::string(parameter.name) + "` | " + EndpointsOf(parameter) + " | " +
           WantedOf(parameter);
    if (!parameter.absent.empty()) out += " (" + std::string(parameter.absent) + ")";
    if (!parameter.notes.empty()) out += " | " + std::string(parameter.notes);
    out += " |\n";
  }
  out += "\nIgnored, whatever their value: " + NamesOf(Kind::kIgnored, kAll) +
         "; chat and text: " + NamesOf(Kind::kIgnored, kBoth) + ".\n";
  out += "\nRefused, unless absent, null or the value in parentheses: " +
         NamesOf(Kind::kNeutral, kBoth) + "; responses: " + NamesOf(Kind::kNeutral, kResponses) +
         "; messages: " + NamesOf(Kind::kNeutral, kMessages) + ".\n";
  return out;
}

}  // namespace janus::gateway
