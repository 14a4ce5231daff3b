#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "dataplane/engine/token_grammar.h"

namespace janus::dataplane {

// Identifies a request: `stream` names the gateway's connection, unique within the instance; id and
// attempt are the gateway's.
struct RequestKey {
  uint64_t stream = 0;
  uint64_t id = 0;
  uint32_t attempt = 0;
  friend auto operator<=>(const RequestKey&, const RequestKey&) = default;
};

// What changes a position's logits before its token is drawn (logit_changes.h). The defaults change
// nothing.
struct SamplingChanges {
  std::vector<std::pair<int32_t, float>> bias;  // token -> what is added; each token once
  int min_tokens = 0;               // stop tokens cannot be drawn before so many are generated
  float repetition_penalty = 1.0f;  // > 0; of tokens of the prompt and the answer
  float frequency_penalty = 0.0f;   // of tokens of the answer, for each time
  float presence_penalty = 0.0f;    // the same, once
  float min_p = 0.0f;               // share of the likeliest token's probability; 0..1

  bool AnyOf() const {
    return !bias.empty() || min_tokens > 0 || repetition_penalty != 1.0f ||
           frequency_penalty != 0.0f || presence_penalty != 0.0f || min_p > 0.0f;
  }
};

struct Request {
  RequestKey key;
  std::vector<int32_t> prompt;  // token ids, at least one
  // What another instance has generated for this request. It is computed again as generated
  // positions. Then the answer continues with the same tokens and bits as it would have there.
  std::vector<int32_t> generated;
  int max_tokens = 1;        // to generate, `generated` included
  float temperature = 0.0f;  // 0: greedy
  int top_k = 0;             // 0: all
  float top_p = 1.0f;
  uint64_t seed = 0;
  SamplingChanges changes;
  std::shared_ptr<const TokenGrammar> grammar;  // which the answer must follow; null: none
  std::vector<int32_t> stop_tokens;             // end the answer; the stop token is its last token
  bool ignore_stop_tokens = false;
  int logprobs = -1;         // -1: none; n: of the token and of the n likeliest
  int prompt_logprobs = -1;  // the same for each prompt token but the first
  int routed_from = -1;      // the experts of positions from here on are reported; -1: of none
  bool want_logits_hash = false;
  std::string client_request_id;  // for logs
  std::string traceparent;
  MonotonicTime arrived = {};  // at the instance, which sets it
};

// kComplete: the answer has all that its grammar asks for; the last token belongs to it.
enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError, kComplete };

inline constexpr uint16_t kNoExpert = 0xFFFF;

struct TokenLogprobs {
  float logprob = 0.0f;
  std::vector<std::pair<int32_t, float>> top;  // by descending logprob
};

// The output of one step for one request.
struct TokenEvent {
  RequestKey key;
  int32_t token = -1;  // -1: none, only the finish
  FinishReason finish = FinishReason::kNone;
  Status error;  // with kError; the code tells the client whether to change the request, wait or
                 // give up
  bool has_logprobs = false;
  TokenLogprobs logprobs;
  bool has_logits_hash = false;
  uint64_t logits_hash = 0;
  std::vector<TokenLogprobs> prompt_logprobs;  // of consecutive positions
  int prompt_logprobs_from = 0;                // the first of these positions
  // The logical experts of consecutive positions, [positions, layers, K], by descending choice of
  // the gate; kNoExpert in layers without. They come before the tokens drawn from these positions.
  std::vector<uint16_t> routed;
  int routed_from = 0;           // the first of these positions
  int cached_prompt_tokens = 0;  // with the first token: positions that other requests had computed
};

struct StepOutput {
  uint64_t step = 0;
  std::vector<TokenEvent> events;
  uint64_t kv_tokens_in_use = 0;  // positions in the cache; a shared one counts once
  uint64_t keys = 0;              // a shared one counts for each sequence
  uint32_t waiting = 0;
  uint32_t running = 0;
  uint64_t timed_waits = 0;  // of a timed device, since its start
  uint64_t timed_overruns = 0;
  bool holding = false;     // requests wait for an epoch: the last one was lost
  bool is_for_all = false;  // every stream gets it, even without an event: `holding` is news
};

// Receives the output of steps. It may use CPU time but must not block otherwise.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Push(StepOutput&& output) = 0;
};

}  // namespace janus::dataplane
