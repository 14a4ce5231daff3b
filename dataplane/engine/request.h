#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace janus::dataplane {

// Identifies a request: `stream` names the gateway's connection, unique within the instance; id and
// attempt are the gateway's.
struct RequestKey {
  uint64_t stream = 0;
  uint64_t id = 0;
  uint32_t attempt = 0;
  friend auto operator<=>(const RequestKey&, const RequestKey&) = default;
};

struct Request {
  RequestKey key;
  std::vector<int32_t> prompt;  // token ids, at least one
  // What was generated before, at another instance: computed again as generated positions, then the
  // answer goes on behind it with the tokens and bits it would have had there.
  std::vector<int32_t> generated;
  int max_tokens = 1;        // to generate, `generated` included
  float temperature = 0.0f;  // 0: greedy
  int top_k = 0;             // 0: all
  float top_p = 1.0f;
  uint64_t seed = 0;
  std::vector<int32_t> stop_tokens;  // end the answer; the stop token is its last token
  bool ignore_stop_tokens = false;
  int logprobs = -1;  // -1: none; n: of the token and of the n likeliest
  bool want_logits_hash = false;
  MonotonicTime arrived = {};  // at the instance, which sets it
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };

struct TokenLogprobs {
  float logprob = 0.0f;
  std::vector<std::pair<int32_t, float>> top;  // by descending logprob
};

// What one step brought one request.
struct TokenEvent {
  RequestKey key;
  int32_t token = -1;  // -1: none, only the finish
  FinishReason finish = FinishReason::kNone;
  Status error;  // with kError; the code tells the client whether to mend, wait or give up
  bool has_logprobs = false;
  TokenLogprobs logprobs;
  bool has_logits_hash = false;
  uint64_t logits_hash = 0;
};

struct StepOutput {
  uint64_t step = 0;
  std::vector<TokenEvent> events;
  uint64_t kv_tokens_in_use = 0;
  uint32_t waiting = 0;
  uint32_t running = 0;
};

// Takes what a step brought; must not block on anything but the machine's cores.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Push(StepOutput&& output) = 0;
};

}  // namespace janus::dataplane
