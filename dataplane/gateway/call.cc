#include "dataplane/gateway/call.h"

#include <cstdio>

namespace janus::gateway {

namespace {

RequestError ToApiError(const Status& status, int retry_after_seconds) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return InvalidParameter("", status.message());
    case StatusCode::kResourceExhausted:
      return Overloaded(status.message(), retry_after_seconds);
    case StatusCode::kUnavailable:
      return NoWorkers(status.message());
    case StatusCode::kAborted:
      return {502, "api_error", "worker_lost", "", status.message()};
    case StatusCode::kDeadlineExceeded:
      return {504, "api_error", "timeout", "", status.message()};
    default:
      return {500, "api_error", "internal_error", "", status.message()};
  }
}

}  // namespace

// Brings the tokens of one choice to the call's thread.
class Call::Sink final : public TokenSink {
 public:
  Sink(std::shared_ptr<Call> call, size_t index) : call_(std::move(call)), index_(index) {}
  void OnTokens(TokenEvent event) override {
    call_->exchange_->Post(
        [call = call_, index = index_, event = std::move(event)] { call->OnTokens(index, event); });
  }

 private:
  const std::shared_ptr<Call> call_;
  const size_t index_;
};

Call::Call(CallContext& context, std::shared_ptr<HttpExchange> exchange, MemoryLease memory)
    : context_(context),
      exchange_(std::move(exchange)),
      memory_(std::move(memory)),
      started_(context.clock.Now()),
      last_progress_(started_) {
  context_.open.fetch_add(1);
  context_.metrics.open_streams.Add(1);
}

Call::~Call() {
  context_.open.fetch_sub(1);
  context_.metrics.open_streams.Add(-1);
}

void Call::Begin() {
  exchange_->OnGone([self = weak_from_this()] {
    if (const auto call = self.lock()) call->ClientGone();
  });
  exchange_->OnEnding([self = weak_from_this()] {
    const auto call = self.lock();
    if (call) call->Fail(Unavailable("the gateway is stopping, and ended this answer"));
  });
}

void Call::Refuse(const RequestError& error) {
  if (over_) return;
  over_ = true;
  GatewayMetrics& metrics = context_.metrics;
  (error.http_status == 429   ? metrics.shed
   : error.http_status >= 500 ? metrics.failed
                              : metrics.refused)
      .Add();
  exchange_->CancelTimer();
  exchange_->Respond(ToReply(error));
}

void Call::Answer(PreparedRequest prepared) {
  if (over_) return;
  // What it was in text is over; what it is in tokens may be more.
  if (!memory_.TrySet(MemoryBytes(prepared), MemoryBudget::Use::kRequest)) {
    context_.metrics.memory_refused.Add();
    return Refuse(
        Overloaded("no memory is free for the prompt's tokens", context_.pool.RetryAfterSeconds()));
  }
  const CompletionRequest& request = prepared.request;
  const bool chat = request.endpoint == Endpoint::kChat;
  stream_ = request.stream;
  head_.endpoint = request.endpoint;
  head_.model = context_.model.name;
  head_.created_unix_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(context_.clock.WallNow().time_since_epoch())
          .count();
  head_.logprobs = request.logprobs.has_value();
  head_.top_logprobs = request.logprobs.value_or(0);
  head_.include_usage = request.include_usage;
  head_.return_token_ids = request.return_token_ids;
  head_.logits_hash = request.logits_hash;

  choices_.resize(prepared.generations.size());
  unfinished_ = choices_.size();
  for (size_t i = 0; i < choices_.size(); ++i) {
    GenerationRequest& generation = prepared.generations[i];
    Choice& choice = choices_[i];
    Result<gateway::Answer> answer = gateway::Answer::Create(
        *context_.model.text.tokenizer, request.stop, request.skip_special_tokens, head_.logprobs);
    if (!answer.ok()) return Fail(answer.status());
    choice.answer.emplace(*std::move(answer));
    if (head_.return_token_ids) choice.prompt = generation.prompt;
    const auto prompt_tokens = static_cast<int64_t>(generation.prompt.size());
    Result<uint64_t> id =
        context_.pool.Submit(std::move(generation), std::make_shared<Sink>(shared_from_this(), i));
    if (!id.ok()) {
      return Fail(id.status());
    }
    choice.id = *id;
    usage_.prompt_tokens += prompt_tokens;
  }
  char name[40];
  std::snprintf(name, sizeof(name), "%s-%016llx", chat ? "chatcmpl" : "cmpl",
                static_cast<unsigned long long>(context_.id_salt ^ choices_[0].id));
  head_.id = name;
  context_.metrics.prompt_tokens.Add(static_cast<uint64_t>(usage_.prompt_tokens));
  exchange_->SetTimer(context_.deadlines.first_token, [self = weak_from_this()] {
    const auto call = self.lock();
    if (call) call->Fail(DeadlineExceeded("no token came before the deadline"));
  });
}

// The instance's pool keeps every token for a replay, and an answer that is not streamed is kept
// until it is whole. A stream's tokens are few bytes, and are not refused: new requests are.
bool Call::HoldMore(const TokenEvent& event, const gateway::Answer::Delta& delta) {
  const auto tokens = static_cast<int64_t>(sizeof(int32_t) * event.tokens.size());
  if (stream_) {
    memory_.Set(memory_.bytes() + tokens);
    return true;
  }
  return memory_.TrySet(memory_.bytes() + tokens + delta.MemoryBytes(), MemoryBudget::Use::kAnswer);
}

void Call::Measure(Choice& choice, size_t tokens) {
  if (tokens == 0) return;
  const MonotonicTime now = context_.clock.Now();
  last_progress_ = now;
  context_.metrics.generation_tokens.Add(tokens);
  if (!choice.begun) {
    choice.begun = true;
    choice.first_token = now;
    context_.metrics.ttft.Observe(Seconds(now - started_).count());
    exchange_->SetTimer(context_.deadlines.stall, [self = weak_from_this()] {
      if (const auto call = self.lock()) call->CheckStall();
    });
  } else {
    const double each = Seconds(now - choice.last_token).count() / static_cast<double>(tokens);
    for (size_t i = 0; i < tokens; ++i) context_.metrics.itl.Observe(each);
  }
  choice.last_token = now;
}

void Call::CheckStall() {
  if (over_) return;
  const Seconds quiet = context_.clock.Now() - last_progress_;
  if (quiet >= context_.deadlines.stall) {
    return Fail(DeadlineExceeded("no further token came before the deadline"));
  }
  exchange_->SetTimer(context_.deadlines.stall - quiet, [self = weak_from_this()] {
    if (const auto call = self.lock()) call->CheckStall();
  });
}

void Call::OnTokens(size_t index, const TokenEvent& event) {
  Choice& choice = choices_[index];
  if (over_ || choice.finish != Finish::kNone) return;
  if (event.finish == Finish::kError) return Fail(event.error);
  Measure(choice, event.tokens.size());
  usage_.cached_prompt_tokens += event.cached_prompt_tokens;
  Result<gateway::Answer::Delta> delta = choice.answer->Push(event);
  if (!delta.ok()) return Fail(delta.status());
  if (!HoldMore(event, *delta)) {
    context_.metrics.memory_refused.Add();
    return Fail(ResourceExhausted("no memory is free for the rest of this answer"));
  }
  choice.finish = choice.answer->finish();
  // The instance does not know of the text.
  if (choice.finish != Finish::kNone && event.finish == Finish::kNone) {
    context_.pool.Cancel(choice.id);
  }
  if (stream_) {
    WriteChunk(index, *std::move(delta));
  } else {
    Append(*std::move(delta), &choice.whole);
  }
  if (choice.finish != Finish::kNone) FinishChoice(choice);
}

void Call::WriteChunk(size_t index, gateway::Answer::Delta delta) {
  Choice& choice = choices_[index];
  const bool ours = (head_.return_token_ids && !delta.token_ids.empty()) ||
                    (head_.logits_hash && !delta.logits_hashes.empty());
  const bool empty = delta.text.empty() && delta.tokens.empty() && !ours;
  const bool first = !choice.chunk_sent;
  if (empty && !first && choice.finish == Finish::kNone) return;
  if (!stream_begun_) {
    stream_begun_ = true;
    exchange_->BeginStream("text/event-stream; charset=utf-8");
  }
  ResponseChoice out{.index = static_cast<int>(index),
                     .delta = std::move(delta),
                     .finish = choice.finish,
                     .first = first,
                     .prompt_token_ids = std::move(choice.prompt)};
  choice.chunk_sent = true;
  choice.prompt.clear();
  exchange_->Write(ServerSentEvent(ChunkJson(head_, out, *context_.model.text.tokenizer)));
}

void Call::FinishChoice(Choice& choice) {
  const int64_t tokens = choice.answer->completion_tokens();
  usage_.completion_tokens += tokens;
  GatewayMetrics& metrics = context_.metrics;
  (choice.finish == Finish::kStop ? metrics.success_stop : metrics.success_length).Add();
  metrics.e2e.Observe(Seconds(context_.clock.Now() - started_).count());
  if (tokens > 1) {
    metrics.tpot.Observe(Seconds(choice.last_token - choice.first_token).count() /
                         static_cast<double>(tokens - 1));
  }
  if (--unfinished_ == 0) FinishCall();
}

void Call::FinishCall() {
  over_ = true;
  exchange_->CancelTimer();
  if (stream_) {
    if (head_.include_usage) exchange_->Write(ServerSentEvent(UsageChunkJson(head_, usage_)));
    exchange_->Write(kStreamEnd);
    exchange_->EndStream();
    return;
  }
  std::vector<ResponseChoice> choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices.push_back({.index = static_cast<int>(i),
                       .delta = std::move(choices_[i].whole),
                       .finish = choices_[i].finish,
                       .prompt_token_ids = std::move(choices_[i].prompt)});
  }
  exchange_->Respond(
      {.body = ResponseJson(head_, choices, usage_, *context_.model.text.tokenizer)});
}

void Call::CancelAll() {
  for (const Choice& choice : choices_) {
    if (choice.id != 0 && choice.finish == Finish::kNone) context_.pool.Cancel(choice.id);
  }
}

void Call::Fail(const Status& status) {
  if (over_) return;
  CancelAll();
  const RequestError error = ToApiError(status, context_.pool.RetryAfterSeconds());
  if (!stream_begun_) return Refuse(error);
  over_ = true;
  context_.metrics.failed.Add();
  exchange_->CancelTimer();
  // The status line is out: the error is an event, which the official clients raise.
  exchange_->Write(ServerSentEvent(ToJson(error)));
  exchange_->Write(kStreamEnd);
  exchange_->EndStream();
}

void Call::ClientGone() {
  if (over_) return;
  over_ = true;
  context_.metrics.client_gone.Add();
  exchange_->CancelTimer();
  CancelAll();
}

}  // namespace janus::gateway
