#include "dataplane/gateway/attention_link.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "common/mutex.h"
#include "dataplane/gateway/attention_pool.h"
#include "dataplane/gateway/token_messages.h"
#include "proto/convert.h"
#include "proto/tokens.grpc.pb.h"
#include "rpc/channel.h"

namespace janus::gateway {

namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2000};

class GrpcLink;

// One stream, from dialling to its end. gRPC calls each kind of reaction one at a time. mu_ guards
// the state that they share with Enqueue.
class TokenStream final : public grpc::ClientBidiReactor<v1::ToAttention, v1::FromAttention>,
                          public std::enable_shared_from_this<TokenStream> {
 public:
  // `link` outlives OnDone. The stream itself may live on in credits that are still held.
  explicit TokenStream(GrpcLink* link) : link_(link), context_(std::in_place) {}

  void Start(v1::Tokens::Stub& stub, v1::ToAttention hello);
  void Enqueue(v1::ToAttention message);
  // In the place of counts that are queued and not on their way.
  void EnqueueCounts(v1::ToAttention message);
  void Cancel() {
    MutexLock lock(mu_);
    if (context_) context_->TryCancel();
  }
  bool welcomed() const { return welcomed_; }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  // Handles the message that was read; an error if it breaks the protocol.
  Status Handle();
  void ReturnCredit();

  GrpcLink* const link_;
  v1::FromAttention incoming_;  // confined to the read reactions
  bool welcomed_ = false;       // the same
  bool broken_ = false;         // the same

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
        stub_(v1::Tokens::NewStub(DialInstance(options_.address, options_.credentials))) {}

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

  void SendCounts(const GatewayCounts& counts) override {
    if (auto stream = Stream()) stream->EnqueueCounts(CountsMessage(counts));
  }

  // Called by the stream.
  void OnWelcome(const AttentionCapacity& capacity) {
    {
      MutexLock lock(mu_);
      pause_ = kFirstPause;
    }
    pool_->OnUp(this, capacity);
  }
  void OnEvents(AttentionEvents events) {
    pool_->OnStep(this, std::move(events.requests), events.load);
  }
  void OnBreach(const Status& breach) {
    log_.Error("stream ended", {{"reason", breach.message()}});
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
      // A new alarm each time, because the old one's callback may still be running.
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
    // Stop may destroy the link as soon as it sees this.
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
    // Stop was called before there was a call to cancel.
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
  int pauses_ JANUS_GUARDED_BY(mu_) = 0;  // alarms with a callback that has not ended
  bool dialling_ JANUS_GUARDED_BY(mu_) = false;
  bool stopped_ JANUS_GUARDED_BY(mu_) = false;
};

void TokenStream::Start(v1::Tokens::Stub& stub, v1::ToAttention hello) {
  // Wait for a worker that is not up yet; the channel paces the attempts.
  {
    MutexLock lock(mu_);
    context_->set_wait_for_ready(true);
    stub.async()->Attach(&*context_, this);
  }
  // Writes come from other threads, so the stream must not end before reads do.
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

void TokenStream::EnqueueCounts(v1::ToAttention message) {
  {
    MutexLock lock(mu_);
    // The first is being written.
    for (size_t i = 1; i < outgoing_.size(); ++i) {
      if (!outgoing_[i].has_counts()) continue;
      outgoing_[i] = std::move(message);
      return;
    }
  }
  Enqueue(std::move(message));
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
    const Status handled = broken_ ? OkStatus() : Handle();
    if (!handled.ok()) {
      broken_ = true;  // ignore messages still on their way
      link_->OnBreach(handled);
      Cancel();
    }
    StartRead(&incoming_);
    return;
  }
  {
    MutexLock lock(mu_);
    dead_ = true;
  }
  RemoveHold();
}

Status TokenStream::Handle() {
  if (!welcomed_) {
    JANUS_ASSIGN_OR_RETURN(const AttentionCapacity capacity, ReadWelcome(incoming_));
    welcomed_ = true;
    link_->OnWelcome(capacity);
    return OkStatus();
  }
  std::shared_ptr<const void> credit;
  if (incoming_.has_step()) {
    // The credit returns when every sink has handled its part.
    credit = std::shared_ptr<const void>(
        static_cast<const void*>(this),
        [self = shared_from_this()](const void*) { self->ReturnCredit(); });
  }
  JANUS_ASSIGN_OR_RETURN(AttentionEvents events, ReadEvents(incoming_, credit));
  credit.reset();
  link_->OnEvents(std::move(events));
  return OkStatus();
}

void TokenStream::ReturnCredit() {
  v1::ToAttention message;
  {
    MutexLock lock(mu_);
    // Return several credits at a time: a message per step would double the traffic.
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
