#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dataplane/gateway/request_error.h"

namespace janus::gateway {

enum class Endpoint : uint8_t { kChat, kCompletions };

// A body of /v1/chat/completions or /v1/completions, checked as far as that needs no model. What is
// absent or null stays empty; defaults come later, from the model.
struct CompletionRequest {
  using Prompt = std::variant<std::string, std::vector<int32_t>>;

  Endpoint endpoint = Endpoint::kChat;
  std::string model;

  std::string messages_json;            // chat: the list, contents flattened to strings
  std::string template_variables_json;  // chat_template_kwargs, or empty
  bool add_generation_prompt = true;
  std::vector<Prompt> prompts;  // completions, 1..kMaxPrompts
  std::optional<bool> add_special_tokens;

  bool stream = false;
  bool include_usage = false;

  std::optional<int64_t> max_tokens;  // >= 1
  std::optional<double> temperature;  // 0..2
  std::optional<double> top_p;        // above 0, at most 1
  std::optional<int64_t> top_k;       // 0: all
  std::optional<uint64_t> seed;       // the two's complement of a negative one
  std::vector<std::string> stop;      // at most kMaxStops, none empty
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;

  std::optional<int> logprobs;  // alternatives per token: chat 0..20, completions 0..5
  bool logits_hash = false;     // ours: a hash of each position's logits
  bool return_token_ids = false;
};

inline constexpr int kMaxPrompts = 128;
inline constexpr int kMaxStops = 4;
inline constexpr size_t kMaxStopBytes = 4096;

// Pure. Knows every parameter of both endpoints: one that is not carried out is refused by name
// unless it is null or the value that changes nothing; user, metadata, store, service_tier and the
// like are ignored; an unknown one is refused.
RequestResult<CompletionRequest> ParseCompletionRequest(Endpoint endpoint, std::string_view body);

}  // namespace janus::gateway
