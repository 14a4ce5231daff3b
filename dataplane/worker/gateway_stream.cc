#include "dataplane/worker/gateway_stream.h"

#include <algorithm>
#include <utility>

#include "dataplane/worker/step_message.h"
#include "dataplane/worker/submit_message.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

constexpr size_t kMostRejected = 1024;
constexpr uint32_t kMostOpen = 4096;
constexpr size_t kMostIdChars = 256;
// Of one message, and one request more: together they fit gRPC's bound of a message.
constexpr size_t kMostExpertBytes = size_t{16} << 20;

}  // namespace

GatewayStream::GatewayStream(StreamTarget& target, uint64_t number, Logger log)
    : target_(target), number_(number), log_(std::move(log)) {}

Status GatewayStream::Handle(const v1::ToAttention& message) {
  if (gateway_.empty() && message.message_case() != v1::ToAttention::kHello) {
    return FailedPrecondition("the first message must be Hello");
  }
  switch (message.message_case()) {
    case v1::ToAttention::kHello:
      return Greet(message.hello());
    case v1::ToAttention::kSubmit:
      Submit(message.submit());
      return OkStatus();
    case v1::ToAttention::kCancel:
      Cancel(message.cancel());
      return OkStatus();
    case v1::ToAttention::kCredits: {
      const MutexLock lock(mu_);
      credits_ += std::min(message.credits().steps(), UINT32_MAX - credits_);
      return OkStatus();
    }
    case v1::ToAttention::kCounts:
      target_.TakeCounts(FromProto(message.counts()));
      return OkStatus();
    case v1::ToAttention::MESSAGE_NOT_SET:
      break;
  }
  return InvalidArgument("a message of a kind this version does not know");
}

Status GatewayStream::Greet(const v1::Hello& hello) {
  if (!gateway_.empty()) return FailedPrecondition("a second Hello");
  JANUS_RETURN_IF_ERROR(target_.CheckService(hello.service_uid()));
  if (hello.gateway_id().empty() || hello.gateway_id().size() > kMostIdChars) {
    return InvalidArgument("Hello with a gateway_id of " +
                           std::to_string(hello.gateway_id().size()) + " bytes, want 1.." +
                           std::to_string(kMostIdChars));
  }
  gateway_ = hello.gateway_id();
  log_.Info("gateway attached", {{"gateway", gateway_}});
  target_.Attached(gateway_);
  v1::Welcome welcome = target_.Describe();
  welcome.set_max_requests(kMostOpen);
  welcome.set_accepts_counts(true);
  const MutexLock lock(mu_);
  credits_ = hello.credits();
  welcome_ = std::move(welcome);
  return OkStatus();
}

void GatewayStream::Submit(const v1::Submit& submit) {
  const RequestId id{submit.request_id(), submit.attempt()};
  const Status status = TrySubmit(submit, id);
  // Log requests that belong to a trace, and refused ones, because people search for them by id.
  if (!status.ok() || !submit.traceparent().empty()) {
    log_.Info(status.ok() ? "request taken" : "request refused",
              {{"gateway", gateway_},
               {"request", id.first},
               {"request_id", submit.client_request_id().substr(0, kMostIdChars)},
               {"traceparent", submit.traceparent().substr(0, kMostIdChars)},
               {"reason", status.message()}});
  }
  if (status.ok()) return;
  v1::Rejected rejected;
  rejected.set_request_id(id.first);
  rejected.set_attempt(id.second);
  rejected.set_code(static_cast<uint32_t>(status.code()));
  rejected.set_message(status.message());
  const MutexLock lock(mu_);
  rejected_.push_back(std::move(rejected));
}

Status GatewayStream::TrySubmit(const v1::Submit& submit, const RequestId& id) {
  JANUS_RETURN_IF_ERROR(target_.CheckTakesRequests());
  JANUS_ASSIGN_OR_RETURN(Request request, ToRequest(submit, number_, target_.max_model_len()));
  if (!submit.grammar().empty()) {
    JANUS_ASSIGN_OR_RETURN(request.grammar, target_.Compile(submit.grammar()));
  }
  JANUS_RETURN_IF_ERROR(Open(id));
  Status submitted = target_.Submit(std::move(request));
  if (!submitted.ok()) {
    const MutexLock lock(mu_);
    open_.erase(id);
  }
  return submitted;
}

Status GatewayStream::Open(const RequestId& id) {
  const MutexLock lock(mu_);
  // Count requests that have ended but are not written yet: a gateway without credit cannot pile
  // them up.
  if (open_.size() + ended_owed_ >= kMostOpen) {
    return ResourceExhausted(std::to_string(kMostOpen) +
                             " requests of this gateway are open already");
  }
  if (owed_.contains(id) || !open_.insert(id).second) {
    return AlreadyExists("the request is open already");
  }
  return OkStatus();
}

void GatewayStream::Cancel(const v1::Cancel& cancel) {
  const RequestId id{cancel.request_id(), cancel.attempt()};
  {
    const MutexLock lock(mu_);
    if (open_.erase(id) == 0) return;
    owed_.erase(id);
  }
  target_.Cancel({number_, id.first, id.second});
}

void GatewayStream::OnStep(StepOutput&& output) {
  const MutexLock lock(mu_);
  for (const TokenEvent& event : output.events) {
    const RequestId id{event.key.id, event.key.attempt};
    const auto open = open_.find(id);
    if (open == open_.end()) continue;  // it was cancelled meanwhile
    AddEvent(event, owed_[id]);
    if (event.finish == FinishReason::kNone) continue;
    open_.erase(open);
    ++ended_owed_;
  }
  load_ = std::move(output);
  load_.events.clear();
  load_is_news_ = true;
}

bool GatewayStream::TakeNext(v1::FromAttention& message) {
  const MutexLock lock(mu_);
  message.Clear();
  if (welcome_) {
    *message.mutable_welcome() = std::move(*welcome_);
    welcome_.reset();
    return true;
  }
  if (!rejected_.empty()) {
    *message.mutable_rejected() = std::move(rejected_.front());
    rejected_.pop_front();
    return true;
  }
  if ((owed_.empty() && !load_is_news_) || credits_ == 0) return false;
  --credits_;
  load_is_news_ = false;
  v1::Step& step = *message.mutable_step();
  // Experts of many positions may have piled up. What does not fit waits for the next credit.
  for (size_t bytes = 0; !owed_.empty() && bytes < kMostExpertBytes;) {
    const auto first = owed_.begin();
    bytes += first->second.routed_experts().size();
    if (first->second.finish_reason() != v1::FINISH_REASON_NONE) --ended_owed_;
    *step.add_requests() = std::move(first->second);
    owed_.erase(first);
  }
  step.set_step(load_.step);
  step.set_kv_tokens_in_use(load_.kv_tokens_in_use);
  step.set_keys(load_.keys);
  step.set_queued(load_.waiting);
  step.set_running(load_.running);
  step.set_timed_waits(load_.timed_waits);
  step.set_timed_overruns(load_.timed_overruns);
  step.set_holding(load_.holding);
  return true;
}

bool GatewayStream::holds_reading() const {
  const MutexLock lock(mu_);
  return rejected_.size() >= kMostRejected;
}

}  // namespace janus::dataplane
