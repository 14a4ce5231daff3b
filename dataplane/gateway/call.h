#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "dataplane/gateway/answer.h"
#include "dataplane/gateway/answers/answer_writer.h"
#include "dataplane/gateway/answers/errors.h"
#include "dataplane/gateway/attention_pool.h"
#include "dataplane/gateway/chat/chat_text.h"
#include "dataplane/gateway/echo.h"
#include "dataplane/gateway/gateway_metrics.h"
#include "dataplane/gateway/http_server.h"
#include "dataplane/gateway/prepare.h"
#include "dataplane/gateway/routed_experts.h"

namespace janus::gateway {

struct CallDeadlines {
  Seconds first_token{600};  // from submission; 504 afterwards
  Seconds stall{120};        // between two tokens
  Seconds comment{5};        // interval of comments that keep a silent stream open
  // How long a stream without a token waits before it sends its head. Errors before that get an
  // HTTP status.
  Seconds head{0.25};
};

// What all calls share; it outlives them.
struct CallContext {
  const ServedModel& model;
  AttentionPool& pool;
  GatewayMetrics& metrics;
  const Clock& clock;
  CallDeadlines deadlines;
  uint64_t id_salt = 0;           // makes request ids differ between gateways
  std::atomic<int64_t> open = 0;  // calls that exist
};

// One completion request, from its tokens to the last byte of the answer: `n` choices per prompt.
// Confined to the exchange's I/O thread, except for the arrival of tokens and its own end.
class Call : public std::enable_shared_from_this<Call> {
 public:
  // `memory` holds the request's body; from Answer on, what the call itself holds.
  Call(CallContext& context, std::shared_ptr<HttpExchange> exchange, MemoryLease memory,
       ErrorForm errors);
  ~Call();

  // Watches the client and the server. Afterwards exactly one of the two functions below must be
  // called.
  void Begin();
  void Answer(PreparedRequest prepared);
  // `is_demand`: a refusal for load counts for scaling.
  void Refuse(const RequestError& error, bool is_demand = true);

  HttpExchange& exchange() { return *exchange_; }
  bool over() const { return over_; }

 private:
  class Sink;
  struct Choice {
    uint64_t id = 0;
    std::optional<gateway::Answer> answer;
    std::vector<int32_t> prompt;                    // kept only if the answer shows it
    std::string prompt_text;                        // the same
    std::optional<PromptLogprobs> prompt_logprobs;  // still to arrive
    std::vector<PositionLogprobs> prompt_scores;    // all of them, shown with the first part
    std::optional<RoutedExperts> routed;            // of its positions so far
    int64_t prompt_tokens = 0;
    bool echoed = false;
    std::optional<ChatText> chat;  // splits the text into its parts
    ChatText::Delta taken;         // parts for the writer
    size_t calls = 0;              // tool calls found so far
    int64_t reasoning_tokens = 0;
    bool is_first_call_only = false;
    MonotonicTime first_token, last_token;
    bool begun = false;  // a token has arrived
    Finish finish = Finish::kNone;
  };

  void OnTokens(size_t index, const TokenEvent& event);
  void Measure(Choice& choice, size_t tokens);
  void TakeHead(const PreparedRequest& prepared);
  void OpenChoice(const CompletionRequest& request, size_t index,
                  const GenerationRequest& generation);
  bool TakePromptLogprobs(Choice& choice, const TokenEvent& event);
  bool TakeRouted(Choice& choice, const TokenEvent& event);
  void TakeApart(Choice& choice, size_t tokens, gateway::Answer::Delta* delta);
  Result<gateway::Answer::Delta> Shown(Choice& choice, const TokenEvent& event);
  bool HoldMore(const TokenEvent& event, const gateway::Answer::Delta& delta);
  bool WritePart(size_t index, gateway::Answer::Delta delta);
  Usage UsageSoFar() const;
  void FinishChoice(Choice& choice);
  void FinishCall();
  void CountEnd(int http_status);
  void Fail(const Status& status);
  void CancelAll();
  void ClientGone();
  void BeginStream();
  void ArmTimer();
  void OnTimer();
  std::optional<MonotonicTime> NextSignOfLife() const;

  CallContext& context_;
  const std::shared_ptr<HttpExchange> exchange_;
  MemoryLease memory_;
  const ErrorForm errors_;
  const MonotonicTime started_;
  ResponseHead head_;
  std::unique_ptr<AnswerWriter> writer_;  // from Answer on
  Usage usage_;                           // without the tokens of answers
  std::vector<Choice> choices_;
  size_t unfinished_ = 0;
  size_t choices_of_prompt_ = 1;
  bool has_arrived_ = false;  // its prompts have been read
  size_t uncounted_ = 0;      // of its requests, those whose end has not been counted
  bool echo_ = false;
  bool drops_tokens_ = false;  // max_tokens 0: one token is drawn but not shown
  bool skip_special_tokens_ = true;
  bool stream_begun_ = false;
  bool over_ = false;
  bool token_came_ = false;
  MonotonicTime last_progress_;  // the last token, or the submission
  MonotonicTime last_written_;   // of a stream
  HttpHeaders headers_;          // of the answer
};

}  // namespace janus::gateway
