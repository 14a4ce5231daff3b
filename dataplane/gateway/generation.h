#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace janus::gateway {

// One sequence to generate, in tokens: it is sent to an attention instance, and kept for a replay.
struct GenerationRequest {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 1;
  double temperature = 1;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;
  // As in proto/tokens.proto; the defaults change nothing.
  std::vector<std::pair<int32_t, float>> logit_bias{};
  int64_t min_tokens = 0;
  double repetition_penalty = 1;
  double frequency_penalty = 0;
  double presence_penalty = 0;
  double min_p = 0;
  uint64_t seed = 0;
  // What the answer must look like, as in proto/tokens.proto; null: anything. Shared by the
  // choices.
  std::shared_ptr<const std::string> grammar{};
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;
  int logprobs = -1;         // alternatives per token; -1: none wanted
  int prompt_logprobs = -1;  // the same for each prompt token but the first
  bool want_logits_hash = false;
  int64_t routed_from = -1;         // the experts of positions from here on are wanted; -1: none
  int64_t routed_width = 0;         // experts of each of them: layers * top_k
  std::string client_request_id{};  // for the workers' logs
  std::string traceparent{};
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct PositionLogprobs {
  float logprob = 0;
  std::vector<TokenLogprob> top;  // likeliest first
  bool is_absent = false;         // for a prompt's first token, which has no predecessor
};

enum class Finish : uint8_t { kNone, kStop, kLength, kError };

// The output of one engine step for a request, or the end of the request.
struct TokenEvent {
  std::vector<int32_t> tokens;
  std::vector<PositionLogprobs> logprobs;  // one per token, or none
  std::vector<uint64_t> logits_hashes;     // one per token, or none
  // Log probabilities of consecutive prompt tokens, from position `prompt_logprobs_from` on.
  // Another instance may send a position again.
  std::vector<PositionLogprobs> prompt_logprobs{};
  int64_t prompt_logprobs_from = 0;
  // Experts of consecutive positions, from `routed_from` on, [positions, routed_width], as in
  // proto/tokens.proto. Another instance may send a position again.
  std::vector<uint16_t> routed{};
  int64_t routed_from = 0;
  Finish finish = Finish::kNone;  // kStop: the last token is a stop token, unless is_complete
  bool is_complete = false;       // with kStop: the last token completes what the grammar asks for
  Status error;                   // with kError
  int64_t cached_prompt_tokens = 0;
  // Handling is over when the last copy is destroyed: the instance may then send a further step.
  std::shared_ptr<const void> credit;
};

// Receives the tokens of one request.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Called from any thread, one call at a time and in order. It must not block. No event follows
  // one with a finish.
  virtual void OnTokens(TokenEvent event) = 0;
};

}  // namespace janus::gateway
