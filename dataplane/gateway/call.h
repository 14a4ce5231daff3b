#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "dataplane/gateway/answer.h"
#include "dataplane/gateway/attention_pool.h"
#include "dataplane/gateway/gateway_metrics.h"
#include "dataplane/gateway/http_server.h"
#include "dataplane/gateway/prepare.h"
#include "dataplane/gateway/response.h"

namespace janus::gateway {

struct CallDeadlines {
  Seconds first_token{600};  // from submission; 504 afterwards
  Seconds stall{120};        // between two tokens
};

// What all calls share; outlives them.
struct CallContext {
  const ServedModel& model;
  AttentionPool& pool;
  GatewayMetrics& metrics;
  const Clock& clock;
  CallDeadlines deadlines;
  uint64_t id_salt = 0;           // makes request ids differ between gateways
  std::atomic<int64_t> open = 0;  // calls that exist
};

// One completion request from its tokens to the last byte of the answer: one choice per prompt.
// Confined to the exchange's I/O thread, but for the tokens' arrival and its own end.
class Call : public std::enable_shared_from_this<Call> {
 public:
  // `memory` holds the request's body; from Answer on, what the call itself holds.
  Call(CallContext& context, std::shared_ptr<HttpExchange> exchange, MemoryLease memory);
  ~Call();

  // Watches the client and the server. Then either of the two below, once, in any case.
  void Begin();
  void Answer(PreparedRequest prepared);
  void Refuse(const RequestError& error);

  HttpExchange& exchange() { return *exchange_; }
  bool over() const { return over_; }

 private:
  class Sink;
  struct Choice {
    uint64_t id = 0;
    std::optional<gateway::Answer> answer;
    gateway::Answer::Delta whole;  // not streamed: what is there so far
    std::vector<int32_t> prompt;   // kept to be shown, if asked for
    MonotonicTime first_token, last_token;
    bool begun = false;  // a token came
    bool chunk_sent = false;
    Finish finish = Finish::kNone;
  };

  void OnTokens(size_t index, const TokenEvent& event);
  void Measure(Choice& choice, size_t tokens);
  bool HoldMore(const TokenEvent& event, const gateway::Answer::Delta& delta);
  void WriteChunk(size_t index, gateway::Answer::Delta delta);
  void FinishChoice(Choice& choice);
  void FinishCall();
  void Fail(const Status& status);
  void CancelAll();
  void ClientGone();
  void CheckStall();

  CallContext& context_;
  const std::shared_ptr<HttpExchange> exchange_;
  MemoryLease memory_;
  const MonotonicTime started_;
  ResponseHead head_;
  Usage usage_;
  std::vector<Choice> choices_;
  size_t unfinished_ = 0;
  bool stream_ = false;
  bool stream_begun_ = false;
  bool over_ = false;
  MonotonicTime last_progress_;
};

}  // namespace janus::gateway
