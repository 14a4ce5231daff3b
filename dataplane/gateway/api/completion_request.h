#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dataplane/gateway/api/parameters.h"
#include "dataplane/gateway/request_error.h"
#include "dataplane/gateway/structure/structured_answer.h"

namespace janus::gateway {

// A body of an endpoint, checked as far as possible without the model. Those of /v1/messages and
// /v1/responses are translated to a chat. Absent or null fields stay empty; the model's defaults
// are filled in later. Bounds: parameters.h.
struct CompletionRequest {
  using Prompt = std::variant<std::string, std::vector<int32_t>>;
  // What the client asks of a chat template that can switch reasoning.
  enum class Thinking : uint8_t {
    kDefault,
    kOn,
    kOff,            // refused where the model reasons and has no switch
    kOffIfPossible,  // a model without a switch does as it does
  };

  Endpoint endpoint = Endpoint::kChat;
  std::string model;

  // Chat: the list as the client sent it, each message with a role and a content. In messages_json
  // each content is a string, with text parts joined; part_messages_json keeps the lists of text
  // parts.
  std::string messages_json;
  std::string part_messages_json;       // empty: no message has parts
  std::string final_message;            // text of the last message, if it is to be continued
  std::string template_variables_json;  // chat_template_kwargs, or empty
  std::optional<std::string> reasoning_effort;
  bool is_effort_a_hint = false;  // not refused where the template does not read it
  Thinking thinking = Thinking::kDefault;
  std::string tools_json;         // chat: the list, or empty
  bool reads_tool_calls = false;  // tool calls are taken out of the answer's text
  bool must_call = false;         // the answer is a call of a tool
  std::string called_tool;        // with must_call: the tool, or empty for any
  bool parallel_tool_calls = true;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::vector<Prompt> prompts;  // completions, 1..kMaxPrompts
  std::optional<bool> add_special_tokens;
  std::optional<int64_t> truncate_prompt_tokens;  // -1: as many as fit

  StructuredAnswer structured;

  int n = 1;  // answers for each prompt
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // in every chunk

  // 0: only the prompt is shown (echo, prompt_logprobs).
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;
  std::optional<double> temperature;                  // 0..2
  std::optional<double> top_p;                        // above 0, at most 1
  std::optional<int64_t> top_k;                       // 0: all
  std::vector<std::pair<int32_t, float>> logit_bias;  // each token once
  double repetition_penalty = 1;                      // above 0
  double frequency_penalty = 0;                       // -2..2
  double presence_penalty = 0;                        // -2..2
  double min_p = 0;                                   // 0..1
  std::optional<uint64_t> seed;                       // the two's complement of a negative one
  std::vector<std::string> stop;                      // at most kMaxStops, none empty
  bool include_stop = false;                          // the stop string stays in the answer
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;

  std::optional<int> logprobs;         // alternatives per token: chat 0..20, completions 0..5
  std::optional<int> prompt_logprobs;  // the same for tokens of the prompt, 0..20
  bool echo = false;                   // completions: the answer begins with the prompt
  bool logits_hash = false;            // ours: a hash of each position's logits
  bool return_token_ids = false;
  std::optional<int64_t> routed_from;  // experts of positions from here on are returned
  std::string repeated_json;           // responses: an object, which each answer repeats

  std::vector<std::string> ignored;  // unknown parameters, if these are not refused
};

// Pure. Parameters() lists what it accepts. Parameters that are not implemented are refused by
// name, unless they are null or change nothing.
RequestResult<CompletionRequest> ParseCompletionRequest(
    Endpoint endpoint, std::string_view body,
    UnknownParameters unknown = UnknownParameters::kRefuse);

}  // namespace janus::gateway
