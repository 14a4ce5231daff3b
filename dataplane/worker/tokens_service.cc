#include "dataplane/worker/tokens_service.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "dataplane/worker/step_message.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

using RequestId = std::pair<uint64_t, uint32_t>;  // id, attempt

// Ids beyond the vocabulary, those cut off here included, are refused by the instance, which knows
// it.
std::vector<int32_t> ToTokens(const google::protobuf::RepeatedField<uint32_t>& ids) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(ids.size()));
  for (const uint32_t id : ids) {
    tokens.push_back(static_cast<int32_t>(std::min<uint32_t>(id, INT32_MAX)));
  }
  return tokens;
}

// What is owed to the gateway and not yet written. Bounded: tokens by the max_tokens of the
// requests the stream may have open, rejections by its submits (one each, and a gateway that does
// not read them is not read from).
class Attachment;

// The part of an attachment that the step thread holds; it may outlive the stream.
class AttachmentReceiver final : public TokenReceiver {
 public:
  explicit AttachmentReceiver(Attachment* attachment) : attachment_(attachment) {}
  void OnStep(StepOutput&& output) override;
  void Detach() {
    const MutexLock lock(mu_);
    attachment_ = nullptr;
  }

 private:
  Mutex mu_;
  Attachment* attachment_ JANUS_GUARDED_BY(mu_);
};

class Attachment final : public grpc::ServerBidiReactor<v1::ToAttention, v1::FromAttention> {
 public:
  Attachment(Worker& worker, AttentionInstance& instance, Logger log)
      : worker_(worker),
        instance_(instance),
        log_(log),
        receiver_(std::make_shared<AttachmentReceiver>(this)),
        stream_(worker.router().Add(receiver_)) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Close(grpc::Status::OK);
      return;
    }
    const grpc::Status handled = Handle(incoming_);
    if (!handled.ok()) {
      Close(handled);
      return;
    }
    {
      const MutexLock lock(mu_);
      // Flow control: a gateway that leaves its rejections unread is not read from.
      if (rejected_.size() >= kMostRejected) {
        read_paused_ = true;
      } else if (!closed_) {
        StartRead(&incoming_);
      }
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Close(grpc::Status::OK);
      return;
    }
    {
      const MutexLock lock(mu_);
      writing_ = false;
      if (read_paused_ && !closed_ && rejected_.size() < kMostRejected) {
        read_paused_ = false;
        StartRead(&incoming_);
      }
    }
    MaybeWrite();
  }

  void OnCancel() override { Close(grpc::Status::CANCELLED); }

  void OnDone() override {
    worker_.router().Remove(stream_);
    receiver_->Detach();
    instance_.CancelStream(stream_);
    log_.Info("gateway detached", {{"gateway", gateway_}});
    delete this;
  }

  void OnStep(StepOutput&& output) {
    {
      const MutexLock lock(mu_);
      for (const TokenEvent& event : output.events) {
        const RequestId id{event.key.id, event.key.attempt};
        const auto open = open_.find(id);
        if (open == open_.end()) continue;  // cancelled meanwhile
        auto [owed, fresh] = owed_index_.try_emplace(id, owed_.size());
        if (fresh) owed_.emplace_back();
        AddEvent(event, owed_[owed->second]);
        if (event.finish != FinishReason::kNone) open_.erase(open);
      }
      load_ = std::move(output);
      load_.events.clear();
      load_is_news_ = true;
    }
    MaybeWrite();
  }

 private:
  static constexpr size_t kMostRejected = 1024;
  static constexpr uint32_t kMostOpen = 4096;
  static constexpr size_t kMostIdChars = 256;

  grpc::Status Handle(const v1::ToAttention& message) {
    if (gateway_.empty() && message.message_case() != v1::ToAttention::kHello) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "the first message must be Hello"};
    }
    switch (message.message_case()) {
      case v1::ToAttention::kHello:
        return Greet(message.hello());
      case v1::ToAttention::kSubmit:
        Submit(message.submit());
        return grpc::Status::OK;
      case v1::ToAttention::kCancel:
        Cancel(message.cancel());
        return grpc::Status::OK;
      case v1::ToAttention::kCredits: {
        {
          const MutexLock lock(mu_);
          credits_ += std::min(message.credits().steps(), UINT32_MAX - credits_);
        }
        MaybeWrite();
        return grpc::Status::OK;
      }
      case v1::ToAttention::MESSAGE_NOT_SET:
        break;
    }
    return {grpc::StatusCode::INVALID_ARGUMENT, "a message of a kind this version does not know"};
  }

  grpc::Status Greet(const v1::Hello& hello) {
    if (!gateway_.empty()) return {grpc::StatusCode::FAILED_PRECONDITION, "a second Hello"};
    if (Status s = worker_.CheckService(hello.service_uid()); !s.ok()) return ToGrpc(s);
    if (hello.gateway_id().empty() || hello.gateway_id().size() > kMostIdChars) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              "Hello with a gateway_id of " + std::to_string(hello.gateway_id().size()) +
                  " bytes, want 1.." + std::to_string(kMostIdChars)};
    }
    gateway_ = hello.gateway_id();
    log_.Info("gateway attached", {{"gateway", gateway_}});
    const std::optional<ModelDescription> model = worker_.model();
    const InstanceStatistics statistics = instance_.statistics();
    v1::Welcome welcome;
    welcome.set_instance("attention-" + std::to_string(statistics.rank.value));
    welcome.set_architecture(model ? model->architecture : "");
    welcome.set_vocabulary_size(model ? static_cast<uint32_t>(model->vocab) : 0);
    welcome.set_max_context_tokens(
        static_cast<uint32_t>(std::min<int64_t>(instance_.max_model_len(), UINT32_MAX)));
    welcome.set_max_requests(kMostOpen);
    welcome.set_kv_capacity_tokens(static_cast<uint64_t>(instance_.kv_capacity_tokens()));
    welcome.set_kv_tokens_in_use(statistics.kv_tokens_used);
    welcome.set_accepts_replay(true);
    {
      const MutexLock lock(mu_);
      credits_ = hello.credits();
      welcome_ = std::move(welcome);
    }
    MaybeWrite();
    return grpc::Status::OK;
  }

  void Submit(const v1::Submit& submit) {
    const RequestId id{submit.request_id(), submit.attempt()};
    Status status = [&]() -> Status {
      if (worker_.draining()) return Unavailable("this instance drains");
      JANUS_ASSIGN_OR_RETURN(Request request,
                             ToRequest(submit, stream_, instance_.max_model_len()));
      {
        const MutexLock lock(mu_);
        // What has ended and is not yet written counts: a gateway without credit cannot pile it up.
        if (open_.size() + owed_.size() >= kMostOpen) {
          return ResourceExhausted(std::to_string(kMostOpen) +
                                   " requests of this gateway are open already");
        }
        if (!open_.insert(id).second) return AlreadyExists("the request is open already");
      }
      const Status submitted = instance_.Submit(std::move(request));
      if (!submitted.ok()) {
        const MutexLock lock(mu_);
        open_.erase(id);
      }
      return submitted;
    }();
    if (status.ok()) return;
    v1::Rejected rejected;
    rejected.set_request_id(id.first);
    rejected.set_attempt(id.second);
    rejected.set_code(static_cast<uint32_t>(status.code()));
    rejected.set_message(status.message());
    {
      const MutexLock lock(mu_);
      rejected_.push_back(std::move(rejected));
    }
    MaybeWrite();
  }

  void Cancel(const v1::Cancel& cancel) {
    const RequestId id{cancel.request_id(), cancel.attempt()};
    {
      const MutexLock lock(mu_);
      if (open_.erase(id) == 0) return;
    }
    instance_.Cancel({stream_, id.first, id.second});
  }

  // Starts a write if none is under way and something may be written: the welcome, rejections, then
  // one Step with all that is owed, or the load alone, if the gateway has credit for it.
  void MaybeWrite() {
    const MutexLock lock(mu_);
    if (writing_ || closed_) return;
    outgoing_.Clear();
    if (welcome_) {
      *outgoing_.mutable_welcome() = std::move(*welcome_);
      welcome_.reset();
    } else if (!rejected_.empty()) {
      *outgoing_.mutable_rejected() = std::move(rejected_.front());
      rejected_.pop_front();
    } else if ((!owed_.empty() || load_is_news_) && credits_ > 0) {
      --credits_;
      load_is_news_ = false;
      v1::Step& step = *outgoing_.mutable_step();
      for (v1::RequestTokens& tokens : owed_) *step.add_requests() = std::move(tokens);
      owed_.clear();
      owed_index_.clear();
      step.set_step(load_.step);
      step.set_kv_tokens_in_use(load_.kv_tokens_in_use);
      step.set_queued(load_.waiting);
      step.set_running(load_.running);
    } else {
      return;
    }
    writing_ = true;
    StartWrite(&outgoing_);
  }

  void Close(const grpc::Status& status) {
    const MutexLock lock(mu_);
    if (closed_) return;
    closed_ = true;
    Finish(status);
  }

  Worker& worker_;
  AttentionInstance& instance_;
  const Logger log_;
  const std::shared_ptr<AttachmentReceiver> receiver_;
  const uint64_t stream_;
  std::string gateway_;         // of Hello; read side only
  v1::ToAttention incoming_;    // read side only
  v1::FromAttention outgoing_;  // written by who sets writing_

  Mutex mu_;
  bool writing_ JANUS_GUARDED_BY(mu_) = false;
  bool closed_ JANUS_GUARDED_BY(mu_) = false;
  bool read_paused_ JANUS_GUARDED_BY(mu_) = false;
  uint32_t credits_ JANUS_GUARDED_BY(mu_) = 0;
  std::optional<v1::Welcome> welcome_ JANUS_GUARDED_BY(mu_);
  std::deque<v1::Rejected> rejected_ JANUS_GUARDED_BY(mu_);
  std::set<RequestId> open_ JANUS_GUARDED_BY(mu_);
  std::vector<v1::RequestTokens> owed_ JANUS_GUARDED_BY(mu_);
  std::map<RequestId, size_t> owed_index_ JANUS_GUARDED_BY(mu_);
  StepOutput load_ JANUS_GUARDED_BY(mu_);  // without events
  bool load_is_news_ JANUS_GUARDED_BY(mu_) = false;
};

void AttachmentReceiver::OnStep(StepOutput&& output) {
  const MutexLock lock(mu_);
  if (attachment_ != nullptr) attachment_->OnStep(std::move(output));
}

// Ends an Attach that cannot be served.
class Refusal final : public grpc::ServerBidiReactor<v1::ToAttention, v1::FromAttention> {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

Result<Request> ToRequest(const v1::Submit& submit, uint64_t stream, int64_t max_model_len) {
  constexpr uint32_t kMostLogprobs = kernels::kMaxLogprobs;
  constexpr int kMostStopTokens = 1024;
  if (submit.prompt_tokens_size() == 0) return InvalidArgument("the prompt is empty");
  const int64_t tokens = int64_t{submit.prompt_tokens_size()} + submit.generated_tokens_size();
  if (tokens >= max_model_len) {
    return InvalidArgument("prompt and answer so far have " + std::to_string(tokens) +
                           " tokens; at most " + std::to_string(max_model_len - 1) +
                           " leave room for an answer");
  }
  if (submit.stop_tokens_size() > kMostStopTokens) {
    return InvalidArgument(std::to_string(submit.stop_tokens_size()) + " stop_tokens: at most " +
                           std::to_string(kMostStopTokens));
  }
  if (submit.max_tokens() < 1 || submit.max_tokens() > INT32_MAX) {
    return InvalidArgument("max_tokens " + std::to_string(submit.max_tokens()) +
                           ": want at least 1");
  }
  const v1::Sampling& sampling = submit.sampling();
  if (!std::isfinite(sampling.temperature()) || sampling.temperature() < 0) {
    return InvalidArgument("temperature " + std::to_string(sampling.temperature()) +
                           ": want 0 or more");
  }
  const float top_p = sampling.top_p() == 0.0f ? 1.0f : sampling.top_p();
  if (!(top_p > 0.0f && top_p <= 1.0f)) {
    return InvalidArgument("top_p " + std::to_string(sampling.top_p()) +
                           ": want more than 0, at most 1");
  }
  if (submit.logprobs() > kMostLogprobs + 1) {
    return InvalidArgument("logprobs of " + std::to_string(submit.logprobs() - 1) +
                           " tokens: at most " + std::to_string(kMostLogprobs));
  }
  if (sampling.top_k() > INT32_MAX)
    return InvalidArgument("top_k " + std::to_string(sampling.top_k()));
  Request request;
  request.key = {stream, submit.request_id(), submit.attempt()};
  request.prompt = ToTokens(submit.prompt_tokens());
  request.generated = ToTokens(submit.generated_tokens());
  request.max_tokens = static_cast<int>(submit.max_tokens());
  request.temperature = sampling.temperature();
  request.top_k = static_cast<int>(sampling.top_k());
  request.top_p = top_p;
  request.seed = sampling.seed();
  for (const uint32_t token : submit.stop_tokens()) {
    if (token <= INT32_MAX) request.stop_tokens.push_back(static_cast<int32_t>(token));
  }
  request.ignore_stop_tokens = submit.ignore_eos();
  request.logprobs = static_cast<int>(submit.logprobs()) - 1;
  request.want_logits_hash = submit.want_logits_hash();
  return request;
}

grpc::ServerBidiReactor<v1::ToAttention, v1::FromAttention>* TokensService::Attach(
    grpc::CallbackServerContext*) {
  const Result<AttentionInstance*> instance = worker_.attention();
  if (!instance.ok()) return new Refusal(ToGrpc(instance.status()));
  return new Attachment(worker_, **instance, log_);
}

}  // namespace janus::dataplane
