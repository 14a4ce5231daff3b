#include "dataplane/gateway/call.h"

#include <algorithm>
#include <cstdio>
#include <utility>

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

MonotonicTime Later(MonotonicTime from, Seconds by) {
  return from + std::chrono::duration_cast<MonotonicClock::duration>(by);
}

std::string AnswerId(Endpoint endpoint, uint64_t number) {
  const char* prefix = endpoint == Endpoint::kChat          ? "chatcmpl-"
                       : endpoint == Endpoint::kCompletions ? "cmpl-"
                       : endpoint == Endpoint::kMessages    ? "msg_"
                                                            : "resp_";
  char id[40];
  std::snprintf(id, sizeof(id), "%s%016llx", prefix, static_cast<unsigned long long>(number));
  return id;
}

// Makes client text safe for a header, which has no line ends and little room.
std::string HeaderText(std::string_view text) {
  std::string out(text.substr(0, 1000));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
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

Call::Call(CallContext& context, std::shared_ptr<HttpExchange> exchange, MemoryLease memory,
           ErrorForm errors)
    : context_(context),
      exchange_(std::move(exchange)),
      memory_(std::move(memory)),
      errors_(errors),
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

// What an error makes of the requests that have not ended, for scaling decisions. The client's own
// errors do not count.
void Call::CountEnd(int http_status) {
  RequestCounts& counts = context_.pool.counts();
  const bool is_load = http_status == 429 || http_status == 503;
  if (!has_arrived_ && is_load) counts.Unread();
  if (!is_load && http_status < 500) return;
  for (; uncounted_ > 0; --uncounted_) {
    if (is_load && !token_came_) {
      counts.Refused();
    } else {
      counts.Failed();
    }
  }
}

void Call::Refuse(const RequestError& error, bool is_demand) {
  if (over_) return;
  over_ = true;
  if (is_demand) CountEnd(error.http_status);
  GatewayMetrics& metrics = context_.metrics;
  (error.http_status == 429   ? metrics.shed
   : error.http_status >= 500 ? metrics.failed
                              : metrics.refused)
      .Add();
  exchange_->CancelTimer();
  exchange_->Respond(ToReply(error, errors_));
}

void Call::Answer(PreparedRequest prepared) {
  if (over_) return;
  has_arrived_ = true;
  uncounted_ = prepared.generations.size();
  for (const GenerationRequest& generation : prepared.generations) {
    context_.pool.counts().Arrived(generation.prompt.size());
  }
  // The text of the request is no longer needed; its tokens may take more memory.
  if (!memory_.TrySet(MemoryBytes(prepared), MemoryBudget::Use::kRequest)) {
    context_.metrics.memory_refused.Add();
    return Refuse(
        Overloaded("no memory is free for the prompt's tokens", context_.pool.RetryAfterSeconds()));
  }
  const CompletionRequest& request = prepared.request;
  TakeHead(prepared);
  echo_ = request.echo;
  drops_tokens_ = request.max_tokens == 0;
  // In some models the markers of tool calls are special tokens; in harmony all are.
  skip_special_tokens_ =
      request.skip_special_tokens && !request.reads_tool_calls && !prepared.chat_text.is_harmony;

  choices_of_prompt_ = static_cast<size_t>(request.n);
  choices_.resize(prepared.generations.size());
  unfinished_ = choices_.size();
  for (size_t i = 0; i < choices_.size(); ++i) {
    GenerationRequest& generation = prepared.generations[i];
    Choice& choice = choices_[i];
    OpenChoice(request, i, generation);
    const ChatTextOptions& apart = prepared.chat_text;
    if (apart.is_harmony || apart.reads_reasoning || apart.tools != ToolFormat::kNone)
      choice.chat.emplace(apart);
    choice.is_first_call_only = !request.parallel_tool_calls;
    Result<gateway::Answer> answer = gateway::Answer::Create(
        *context_.model.text.tokenizer, {.stop = request.stop,
                                         .include_stop = request.include_stop,
                                         .skip_special_tokens = skip_special_tokens_,
                                         .want_logprobs = head_.logprobs,
                                         .scores_end = echo_,
                                         .min_tokens = request.min_tokens,
                                         .text_offset = CountCharacters(choice.prompt_text)});
    if (!answer.ok()) return Fail(answer.status());
    choice.answer.emplace(*std::move(answer));
    const auto prompt_tokens = static_cast<int64_t>(generation.prompt.size());
    Result<uint64_t> id =
        context_.pool.Submit(std::move(generation), std::make_shared<Sink>(shared_from_this(), i));
    if (!id.ok()) {
      return Fail(id.status());
    }
    choice.id = *id;
    // The prompt of several choices counts once, as clients expect.
    if (i % choices_of_prompt_ == 0) usage_.prompt_tokens += prompt_tokens;
  }
  head_.id = AnswerId(request.endpoint, context_.id_salt ^ choices_[0].id);
  writer_ = NewAnswerWriter(head_, *context_.model.text.tokenizer);
  context_.metrics.prompt_tokens.Add(static_cast<uint64_t>(usage_.prompt_tokens));
  if (!request.ignored.empty()) {
    std::string names;
    for (const std::string& name : request.ignored) names += (names.empty() ? "" : ", ") + name;
    headers_.emplace_back("X-Ignored-Parameters", HeaderText(names));
  }
  last_progress_ = last_written_ = context_.clock.Now();
  ArmTimer();
}

void Call::TakeHead(const PreparedRequest& prepared) {
  const CompletionRequest& request = prepared.request;
  head_.endpoint = request.endpoint;
  head_.model = context_.model.name;
  head_.created_unix_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(context_.clock.WallNow().time_since_epoch())
          .count();
  head_.stream = request.stream;
  head_.logprobs = request.logprobs.has_value();
  head_.top_logprobs = request.logprobs.value_or(0);
  head_.include_usage = request.include_usage;
  head_.continuous_usage = request.continuous_usage;
  head_.return_token_ids = request.return_token_ids;
  head_.prompt_logprobs = request.prompt_logprobs;
  head_.logits_hash = request.logits_hash;
  head_.is_single = prepared.generations.size() == 1;
  head_.repeated_json = request.repeated_json;
  head_.is_cut_to_context = prepared.is_cut_to_context;
}

// Stores the parts of the prompt that the choice needs.
void Call::OpenChoice(const CompletionRequest& request, size_t index,
                      const GenerationRequest& generation) {
  Choice& choice = choices_[index];
  if (head_.return_token_ids || echo_ || head_.prompt_logprobs) choice.prompt = generation.prompt;
  choice.prompt_tokens = static_cast<int64_t>(generation.prompt.size());
  if (generation.routed_from >= 0) {
    choice.routed.emplace(generation.routed_from, generation.routed_width);
  }
  if (generation.prompt_logprobs >= 0) choice.prompt_logprobs.emplace(generation.prompt.size());
  if (!echo_) return;
  const size_t prompt = index / static_cast<size_t>(request.n);
  const auto* text = std::get_if<std::string>(&request.prompts[prompt]);
  if (text != nullptr && !request.truncate_prompt_tokens) {
    choice.prompt_text = *text;
    return;
  }
  Result<std::string> decoded =
      context_.model.text.tokenizer->Decode(generation.prompt, skip_special_tokens_);
  if (decoded.ok()) choice.prompt_text = *std::move(decoded);
}

// False: the call has failed for lack of memory.
bool Call::TakePromptLogprobs(Choice& choice, const TokenEvent& event) {
  if (event.prompt_logprobs.empty() || !choice.prompt_logprobs) return true;
  const int64_t bytes =
      choice.prompt_logprobs->Put(event.prompt_logprobs_from, event.prompt_logprobs);
  if (memory_.TrySet(memory_.bytes() + bytes, MemoryBudget::Use::kAnswer)) return true;
  context_.metrics.memory_refused.Add();
  Fail(ResourceExhausted("no memory is free for the log probabilities of the prompt"));
  return false;
}

// False: the call has failed.
bool Call::TakeRouted(Choice& choice, const TokenEvent& event) {
  if (event.routed.empty() || !choice.routed) return true;
  const Result<int64_t> bytes = choice.routed->Put(event.routed_from, event.routed);
  if (!bytes.ok()) {
    Fail(bytes.status());
    return false;
  }
  if (memory_.TrySet(memory_.bytes() + *bytes, MemoryBudget::Use::kAnswer)) return true;
  context_.metrics.memory_refused.Add();
  Fail(ResourceExhausted("no memory is free for the experts of this answer"));
  return false;
}

// Moves reasoning and tool calls out of the delta; the content stays in it.
void Call::TakeApart(Choice& choice, size_t tokens, gateway::Answer::Delta* delta) {
  if (!choice.chat) return;
  const auto add = [&](ChatText::Delta more) {
    choice.taken.reasoning += more.reasoning;
    delta->text += more.content;
    for (ToolCall& call : more.calls) {
      if (choice.is_first_call_only && choice.calls > 0) break;
      choice.taken.calls.push_back(std::move(call));
      ++choice.calls;
    }
  };
  const std::string text = std::exchange(delta->text, {});
  add(choice.chat->Push(text));
  if (choice.chat->is_reasoning()) choice.reasoning_tokens += static_cast<int64_t>(tokens);
  if (choice.answer->finish() != Finish::kNone) add(choice.chat->Finish());
}

// What an event adds to the answer. An echoed prompt comes before the first token.
Result<gateway::Answer::Delta> Call::Shown(Choice& choice, const TokenEvent& event) {
  TokenEvent end;
  end.finish = Finish::kLength;
  JANUS_ASSIGN_OR_RETURN(gateway::Answer::Delta delta,
                         choice.answer->Push(drops_tokens_ ? end : event));
  if (std::exchange(choice.echoed, true)) return delta;
  if (choice.prompt_logprobs) choice.prompt_scores = choice.prompt_logprobs->Take();
  choice.prompt_logprobs.reset();
  if (!echo_) return delta;
  JANUS_ASSIGN_OR_RETURN(
      gateway::Answer::Delta echo,
      EchoOf(*context_.model.text.tokenizer, choice.prompt, choice.prompt_text,
             head_.logprobs ? choice.prompt_scores : std::vector<PositionLogprobs>(),
             skip_special_tokens_));
  Append(std::move(delta), &echo);
  return echo;
}

// Accounts the memory of the tokens that the pool keeps for a replay, and of an answer that is not
// streamed. A stream's tokens take few bytes and are never refused; new requests are refused
// instead.
bool Call::HoldMore(const TokenEvent& event, const gateway::Answer::Delta& delta) {
  const auto tokens = static_cast<int64_t>(sizeof(int32_t) * event.tokens.size());
  if (head_.stream) {
    const int64_t kept = writer_->keeps_stream() ? delta.MemoryBytes() : 0;
    memory_.Set(memory_.bytes() + tokens + kept);
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
    const bool is_first = !std::exchange(token_came_, true);
    if (is_first) ArmTimer();
  } else {
    const double each = Seconds(now - choice.last_token).count() / static_cast<double>(tokens);
    for (size_t i = 0; i < tokens; ++i) context_.metrics.itl.Observe(each);
  }
  choice.last_token = now;
}

// When a stream's head or its next comment is due.
std::optional<MonotonicTime> Call::NextSignOfLife() const {
  if (!head_.stream) return std::nullopt;
  const CallDeadlines& deadlines = context_.deadlines;
  return Later(last_written_, stream_begun_ ? deadlines.comment : deadlines.head);
}

void Call::ArmTimer() {
  const CallDeadlines& deadlines = context_.deadlines;
  MonotonicTime due = Later(last_progress_, token_came_ ? deadlines.stall : deadlines.first_token);
  if (const auto sign = NextSignOfLife()) due = std::min(due, *sign);
  exchange_->SetTimer(std::max(Seconds(due - context_.clock.Now()), Seconds(0)),
                      [self = weak_from_this()] {
                        if (const auto call = self.lock()) call->OnTimer();
                      });
}

void Call::OnTimer() {
  if (over_) return;
  const MonotonicTime now = context_.clock.Now();
  const CallDeadlines& deadlines = context_.deadlines;
  if (now >= Later(last_progress_, token_came_ ? deadlines.stall : deadlines.first_token)) {
    return Fail(DeadlineExceeded(token_came_ ? "no further token came before the deadline"
                                             : "no token came before the deadline"));
  }
  if (const auto sign = NextSignOfLife(); sign && now >= *sign) {
    if (stream_begun_) {
      exchange_->Write(writer_->SignOfLife());
    } else {
      BeginStream();
      exchange_->Write(writer_->Begin(UsageSoFar()));
    }
    last_written_ = now;
  }
  ArmTimer();
}

void Call::BeginStream() {
  if (stream_begun_) return;
  stream_begun_ = true;
  exchange_->BeginStream("text/event-stream; charset=utf-8", headers_);
}

void Call::OnTokens(size_t index, const TokenEvent& event) {
  Choice& choice = choices_[index];
  if (over_ || choice.finish != Finish::kNone) return;
  if (event.finish == Finish::kError) return Fail(event.error);
  Measure(choice, event.tokens.size());
  if (index % choices_of_prompt_ == 0) usage_.cached_prompt_tokens += event.cached_prompt_tokens;
  if (event.cached_prompt_tokens > 0) {
    context_.pool.counts().CachedPrompt(static_cast<uint64_t>(event.cached_prompt_tokens));
  }
  if (!TakePromptLogprobs(choice, event) || !TakeRouted(choice, event)) return;
  if (event.tokens.empty() && event.finish == Finish::kNone) return;
  Result<gateway::Answer::Delta> delta = Shown(choice, event);
  if (!delta.ok()) return Fail(delta.status());
  if (!HoldMore(event, *delta)) {
    context_.metrics.memory_refused.Add();
    return Fail(ResourceExhausted("no memory is free for the rest of this answer"));
  }
  TakeApart(choice, event.tokens.size(), &*delta);
  choice.finish = choice.answer->finish();
  // The instance does not know of the stop string.
  if (choice.finish != Finish::kNone && event.finish == Finish::kNone) {
    context_.pool.Cancel(choice.id);
  }
  if (!WritePart(index, *std::move(delta))) return;
  if (choice.finish != Finish::kNone) FinishChoice(choice);
}

// False: the call has failed.
bool Call::WritePart(size_t index, gateway::Answer::Delta delta) {
  Choice& choice = choices_[index];
  std::optional<std::string> routed;
  if (choice.routed && choice.finish != Finish::kNone) {
    // The last token was not computed as an input, so it has no experts.
    Result<std::string> text =
        choice.routed->TextTo(choice.prompt_tokens + choice.answer->completion_tokens() - 1);
    if (!text.ok()) {
      Fail(text.status());
      return false;
    }
    routed = *std::move(text);
    choice.routed.reset();
  }
  ChatText::Delta taken = std::exchange(choice.taken, {});
  ResponseChoice part{.index = static_cast<int>(index),
                      .delta = std::move(delta),
                      .finish = choice.finish,
                      .reasoning = std::move(taken.reasoning),
                      .calls = std::move(taken.calls),
                      .has_called = choice.calls > 0,
                      .stop_string = choice.answer->stop_string(),
                      .prompt = std::exchange(choice.prompt, {}),
                      .prompt_logprobs = std::exchange(choice.prompt_scores, {}),
                      .routed = std::move(routed)};
  part.first_call = choice.calls - part.calls.size();
  const std::string bytes = writer_->Add(std::move(part), UsageSoFar());
  if (bytes.empty()) return true;
  BeginStream();
  last_written_ = context_.clock.Now();
  exchange_->Write(bytes);
  return true;
}

Usage Call::UsageSoFar() const {
  Usage usage = usage_;
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.answer->completion_tokens();
    usage.reasoning_tokens += choice.reasoning_tokens;
  }
  return usage;
}

void Call::FinishChoice(Choice& choice) {
  const int64_t tokens = choice.answer->completion_tokens();
  GatewayMetrics& metrics = context_.metrics;
  (choice.finish == Finish::kStop ? metrics.success_stop : metrics.success_length).Add();
  metrics.e2e.Observe(Seconds(context_.clock.Now() - started_).count());
  const MonotonicTime first = choice.begun ? choice.first_token : context_.clock.Now();
  std::optional<Seconds> tpot;
  if (tokens > 1) {
    tpot = Seconds(choice.last_token - choice.first_token) / static_cast<double>(tokens - 1);
    metrics.tpot.Observe(tpot->count());
  }
  context_.pool.counts().Finished(static_cast<uint64_t>(tokens), first - started_, tpot);
  --uncounted_;
  if (--unfinished_ == 0) FinishCall();
}

void Call::FinishCall() {
  over_ = true;
  exchange_->CancelTimer();
  std::string last = writer_->End(UsageSoFar());
  if (!head_.stream) {
    return exchange_->Respond({.body = std::move(last), .headers = std::move(headers_)});
  }
  exchange_->EndStream(last);
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
  CountEnd(error.http_status);
  context_.metrics.failed.Add();
  exchange_->CancelTimer();
  // The status line has been sent, so send the error as an event.
  exchange_->Write(writer_->Fail(error));
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
