#include "dataplane/gateway/attention_link.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "common/mutex.h"
#include "dataplane/gateway/attention_pool.h"
#include "dataplane/gateway/channel.h"
#include "proto/convert.h"
#include "proto/tokens.grpc.pb.h"

namespace janus::gateway {

namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2000};

AttentionCapacity ToCapacity(const v1::Welcome& welcome) {
  return {.instance = welcome.instance(),
          .vocabulary_size = welcome.vocabulary_size(),
          .max_context_tokens = welcome.max_context_tokens(),
          .max_requests = welcome.max_requests(),
          .kv_capacity_tokens = static_cast<int64_t>(welcome.kv_capacity_tokens()),
          .kv_tokens_in_use = static_cast<int64_t>(welcome.kv_tokens_in_use()),
          .accepts_replay = welcome.accepts_replay()};
}

// Whose fault an instance says it was; the code is outside data.
Status ToStatus(uint32_t code, const std::string& message) {
  return code == 0 ? Internal(message) : FromGrpc(code, message);
}

// It may be tried at another instance, or later.
bool IsShed(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted ||
         status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

AttentionPool::RequestEvent ToEvent(const v1::RequestTokens& tokens,
                                    const std::shared_ptr<const void>& credit) {
  AttentionPool::RequestEvent out{.id = tokens.request_id(), .attempt = tokens.attempt()};
  TokenEvent& event = out.event;
  event.tokens.assign(tokens.tokens().begin(), tokens.tokens().end());
  event.logits_hashes.assign(tokens.logits_hashes().begin(), tokens.logits_hashes().end());
  for (const v1::PositionLogprobs& position : tokens.logprobs()) {
    PositionLogprobs& logprobs = event.logprobs.emplace_back();
    logprobs.logprob = position.logprob();
    for (const v1::TokenLogprob& top : position.top()) {
      logprobs.top.push_back({static_cast<int32_t>(top.token()), top.logprob()});
    }
  }
  event.cached_prompt_tokens = tokens.cached_prompt_tokens();
  event.credit = credit;
  switch (tokens.finish_reason()) {
    case v1::FINISH_REASON_STOP:
      event.finish = Finish::kStop;
      break;
    case v1::FINISH_REASON_LENGTH:
      event.finish = Finish::kLength;
      break;
    case v1::FINISH_REASON_CANCELLED:
      out.shed = true;
      event.error = Unavailable("the attention instance gave the request up");
      break;
    case v1::FINISH_REASON_ERROR:
      event.error = ToStatus(tokens.error_code(), tokens.error());
      out.shed = IsShed(event.error);
      if (!out.shed) event.finish = Finish::kError;
      break;
    default:
      break;
  }
  return out;
}

AttentionPool::RequestEvent ToEvent(const v1::Rejected& rejected) {
  AttentionPool::RequestEvent out{.id = rejected.request_id(), .attempt = rejected.attempt()};
  out.event.error = ToStatus(rejected.code(), rejected.message());
  out.shed = IsShed(out.event.error);
  if (!out.shed) out.event.finish = Finish::kError;
  return out;
}

v1::ToAttention SubmitMessage(uint64_t id, uint32_t attempt, const GenerationRequest& request,
                              std::span<const int32_t> generated) {
  v1::ToAttention message;
  v1::Submit& submit = *message.mutable_submit();
  submit.set_request_id(id);
  submit.set_attempt(attempt);
  submit.mutable_prompt_tokens()->Assign(request.prompt.begin(), request.prompt.end());
  submit.set_max_tokens(static_cast<uint32_t>(std::min<int64_t>(request.max_tokens, UINT32_MAX)));
  v1::Sampling& sampling = *submit.mutable_sampling();
  sampling.set_temperature(static_cast<float>(request.temperature));
  sampling.set_top_k(static_cast<uint32_t>(request.top_k));
  sampling.set_top_p(static_cast<float>(request.top_p));
  sampling.set_seed(request.seed);
  submit.mutable_stop_tokens()->Assign(request.stop_tokens.begin(), request.stop_tokens.end());
  submit.set_ignore_eos(request.ignore_eos);
  submit.set_logprobs(static_cast<uint32_t>(request.logprobs + 1));
  submit.set_want_logits_hash(request.want_logits_hash);
  submit.mutable_generated_tokens()->Assign(generated.begin(), generated.end());
  return message;
}

class GrpcLink;

// One stream, from dialling to its end. gRPC calls the reactions one at a time per kind; the state
// they share with Enqueue is under mu_.
class TokenStream final : public grpc::ClientBidiReactor<v1::ToAttention, v1::FromAttention>,
                          public std::enable_shared_from_this<TokenStream> {
 public:
  // `link` outlives OnDone; the stream itself may live on in credits not yet given back.
  explicit TokenStream(GrpcLink* link) : link_(link), context_(std::in_place) {}

  void Start(v1::Tokens::Stub& stub, v1::ToAttention hello);
  void Enqueue(v1::ToAttention message);
  void Cancel() {
    MutexLock lock(mu_);
    if (context_) context_->TryCancel();
  }
  bool welcomed() const { return welcomed_; }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void Handle();
  void ReturnCredit();

  GrpcLink* const link_;
  v1::FromAttention incoming_;  // confined to the read reactions
  bool welcomed_ = false;       // the same

  Mutex mu_;
  std::optional<grpc::ClientContext> context_ JANUS_GUARDED_BY(mu_);  // until OnDone
  std::deque<v1::ToAttention> outgoing_ JANUS_GUARDED_BY(mu_);
  bool writing_ JANUS_GUARDED_BY(mu_) = false;
  bool dead_ JANUS_GUARDED_BY(mu_) = false;
  uint32_t credits_to_return_ JANUS_GUARDED_BY(mu_) = 0;
};

class GrpcLink final : public AttentionLink {
 public:
  GrpcLink(Options options, AttentionPool* pool, Logger log)
      : options_(std::move(options)),
        pool_(pool),
        log_(std::move(log)),
        stub_(v1::Tokens::NewStub(DialInstance(options_.address))) {}

  void Start() override { Dial(); }

  void Close() override {
    MutexLock lock(mu_);
    stopped_ = true;
    if (stream_) stream_->Cancel();
    if (alarm_) alarm_->Cancel();
  }

  void Stop() override {
    Close();
    MutexLock lock(mu_);
    while (stream_ || pauses_ > 0 || dialling_) changed_.Wait(mu_);
  }

  void Submit(uint64_t id, uint32_t attempt, const GenerationRequest& request,
              std::span<const int32_t> generated) override {
    if (auto stream = Stream()) stream->Enqueue(SubmitMessage(id, attempt, request, generated));
  }

  void Cancel(uint64_t id, uint32_t attempt) override {
    v1::ToAttention message;
    message.mutable_cancel()->set_request_id(id);
    message.mutable_cancel()->set_attempt(attempt);
    if (auto stream = Stream()) stream->Enqueue(std::move(message));
  }

  // From the stream.
  void OnWelcome(const v1::Welcome& welcome) {
    {
      MutexLock lock(mu_);
      pause_ = kFirstPause;
    }
    pool_->OnUp(this, ToCapacity(welcome));
  }
  void OnMessage(const v1::FromAttention& message, std::shared_ptr<const void> credit) {
    std::vector<AttentionPool::RequestEvent> events;
    if (message.has_rejected()) {
      events.push_back(ToEvent(message.rejected()));
      pool_->OnStep(this, std::move(events), std::nullopt);
      return;
    }
    const v1::Step& step = message.step();
    for (const v1::RequestTokens& tokens : step.requests())
      events.push_back(ToEvent(tokens, credit));
    credit.reset();
    pool_->OnStep(this, std::move(events),
                  AttentionLoad{.kv_tokens_in_use = static_cast<int64_t>(step.kv_tokens_in_use()),
                                .queued = step.queued(),
                                .running = step.running()});
  }
  void OnStreamDone(TokenStream* stream, const grpc::Status& status) {
    const Status why = status.ok() ? Cancelled("the instance ended the stream") : FromGrpc(status);
    if (stream->welcomed()) {
      pool_->OnDown(this, why);
    } else {
      log_.Warning("cannot attach", {{"reason", why.message()}});
    }
    MutexLock lock(mu_);
    stream_.reset();
    if (!stopped_) {
      ++pauses_;
      // A new one each time: the last one's callback may still be running.
      alarm_ = std::make_unique<grpc::Alarm>();
      alarm_->Set(std::chrono::system_clock::now() + pause_, [this](bool) { AfterPause(); });
      pause_ = std::min(pause_ * 2, kLongestPause);
    }
    changed_.NotifyAll();
  }

 private:
  std::shared_ptr<TokenStream> Stream() {
    MutexLock lock(mu_);
    return stream_;
  }

  void AfterPause() {
    Dial();
    // Stop may destroy the link as soon as this is seen.
    MutexLock lock(mu_);
    --pauses_;
    changed_.NotifyAll();
  }

  void Dial() {
    v1::ToAttention hello;
    hello.mutable_hello()->set_gateway_id(options_.gateway_id);
    hello.mutable_hello()->set_service_uid(options_.service_uid);
    hello.mutable_hello()->set_credits(options_.step_credits);
    const auto stream = std::make_shared<TokenStream>(this);
    {
      MutexLock lock(mu_);
      if (stopped_) return;
      stream_ = stream;
      dialling_ = true;
    }
    stream->Start(*stub_, std::move(hello));
    MutexLock lock(mu_);
    dialling_ = false;
    // Stop came before there was a call to cancel.
    if (stopped_) stream->Cancel();
    changed_.NotifyAll();
  }

  const Options options_;
  AttentionPool* const pool_;
  const Logger log_;
  const std::unique_ptr<v1::Tokens::Stub> stub_;

  Mutex mu_;
  CondVar changed_;
  std::shared_ptr<TokenStream> stream_ JANUS_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Alarm> alarm_ JANUS_GUARDED_BY(mu_);
  std::chrono::milliseconds pause_ JANUS_GUARDED_BY(mu_) = kFirstPause;
  int pauses_ JANUS_GUARDED_BY(mu_) = 0;  // alarms whose callback has not ended
  bool dialling_ JANUS_GUARDED_BY(mu_) = false;
  bool stopped_ JANUS_GUARDED_BY(mu_) = false;
};

void TokenStream::Start(v1::Tokens::Stub& stub, v1::ToAttention hello) {
  // A worker that is not up yet is waited for; the channel paces the attempts.
  {
    MutexLock lock(mu_);
    context_->set_wait_for_ready(true);
    stub.async()->Attach(&*context_, this);
  }
  // Writes come from other threads: the stream must not end before reads say so.
  AddHold();
  StartRead(&incoming_);
  Enqueue(std::move(hello));
  StartCall();
}

void TokenStream::Enqueue(v1::ToAttention message) {
  MutexLock lock(mu_);
  if (dead_) return;
  outgoing_.push_back(std::move(message));
  if (writing_) return;
  writing_ = true;
  StartWrite(&outgoing_.front());
}

void TokenStream::OnWriteDone(bool ok) {
  MutexLock lock(mu_);
  writing_ = false;
  if (!ok) dead_ = true;
  outgoing_.pop_front();
  if (dead_ || outgoing_.empty()) return;
  writing_ = true;
  StartWrite(&outgoing_.front());
}

void TokenStream::OnReadDone(bool ok) {
  if (ok) {
    Handle();
    StartRead(&incoming_);
    return;
  }
  {
    MutexLock lock(mu_);
    dead_ = true;
  }
  RemoveHold();
}

void TokenStream::Handle() {
  if (!welcomed_) {
    if (!incoming_.has_welcome()) return Cancel();
    welcomed_ = true;
    link_->OnWelcome(incoming_.welcome());
    return;
  }
  if (incoming_.has_rejected()) {
    link_->OnMessage(incoming_, nullptr);
  } else if (incoming_.has_step()) {
    // Given back when every sink has handled its part.
    const std::shared_ptr<const void> credit(
        static_cast<const void*>(this),
        [self = shared_from_this()](const void*) { self->ReturnCredit(); });
    link_->OnMessage(incoming_, credit);
  }
}

void TokenStream::ReturnCredit() {
  v1::ToAttention message;
  {
    MutexLock lock(mu_);
    // A few at a time: a message per step would double the traffic.
    if (dead_ || ++credits_to_return_ < 8) return;
    message.mutable_credits()->set_steps(credits_to_return_);
    credits_to_return_ = 0;
  }
  Enqueue(std::move(message));
}

void TokenStream::OnDone(const grpc::Status& status) {
  const auto self = shared_from_this();
  {
    MutexLock lock(mu_);
    context_.reset();
  }
  link_->OnStreamDone(this, status);
}

}  // namespace

std::shared_ptr<AttentionLink> AttentionLink::Create(Options options, AttentionPool* pool,
                                                     Logger log) {
  return std::make_shared<GrpcLink>(std::move(options), pool, std::move(log));
}

}  // namespace janus::gateway
