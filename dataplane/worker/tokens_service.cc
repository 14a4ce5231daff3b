#include "dataplane/worker/tokens_service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dataplane/attention/routed_rows.h"
#include "dataplane/worker/gateway_stream.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

// Connects a stream to the worker and its instance.
class Target final : public StreamTarget {
 public:
  Target(Worker& worker, AttentionInstance& instance, uint64_t stream)
      : worker_(worker), instance_(instance), grammars_(worker.grammars()), stream_(stream) {}

  Status CheckService(const std::string& service_uid) const override {
    return worker_.CheckService(service_uid);
  }
  v1::Welcome Describe() const override {
    const std::optional<Worker::ServedModel> model = worker_.model();
    const InstanceStatistics statistics = instance_.statistics();
    v1::Welcome welcome;
    welcome.set_instance("attention-" + std::to_string(statistics.rank.value));
    welcome.set_architecture(model ? model->description.architecture : "");
    welcome.set_vocabulary_size(model ? static_cast<uint32_t>(instance_.vocabulary()) : 0);
    welcome.set_model_digest(model ? model->answers_digest : "");
    welcome.set_text_digest(model ? model->text_digest : "");
    welcome.set_max_context_tokens(
        static_cast<uint32_t>(std::min<int64_t>(instance_.max_model_len(), UINT32_MAX)));
    welcome.set_kv_capacity_tokens(static_cast<uint64_t>(instance_.kv_capacity_tokens()));
    welcome.set_kv_tokens_in_use(statistics.kv_tokens_used);
    welcome.set_holding(!statistics.holding.empty());
    welcome.set_accepts_replay(true);
    welcome.set_accepts_grammar(grammars_ != nullptr);
    if (model && RoutedRows::AreKnown(model->description)) {
      welcome.set_routed_layers(static_cast<uint32_t>(model->description.layers));
      welcome.set_routed_top_k(static_cast<uint32_t>(model->description.moe.top_k));
    }
    return welcome;
  }
  int64_t max_model_len() const override { return instance_.max_model_len(); }
  Status CheckTakesRequests() const override {
    return worker_.draining() ? Unavailable("this instance drains") : OkStatus();
  }
  Status Submit(Request request) override { return instance_.Submit(std::move(request)); }
  Result<std::shared_ptr<const TokenGrammar>> Compile(const std::string& grammar) override {
    if (grammars_ == nullptr) {
      return FailedPrecondition("this worker cannot follow a grammar: the model has no tokenizer");
    }
    return grammars_->Compile(grammar);
  }
  void Cancel(const RequestKey& key) override { instance_.Cancel(key); }
  void Attached(const std::string& gateway_id) override {
    worker_.gateways().Attach(stream_, gateway_id);
  }
  void TakeCounts(GatewayCounts counts) override {
    worker_.gateways().Take(stream_, std::move(counts));
  }

 private:
  Worker& worker_;
  AttentionInstance& instance_;
  Grammars* const grammars_;  // null: none
  const uint64_t stream_;
};

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

// Carries a GatewayStream over a gRPC stream, with at most one read and one write pending.
class Attachment final : public grpc::ServerBidiReactor<v1::ToAttention, v1::FromAttention> {
 public:
  Attachment(Worker& worker, AttentionInstance& instance, const Logger& log)
      : worker_(worker),
        instance_(instance),
        log_(log),
        receiver_(std::make_shared<AttachmentReceiver>(this)),
        number_(worker.router().Add(receiver_)),
        target_(worker, instance, number_),
        stream_(target_, number_, log) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Close(grpc::Status::OK);
      return;
    }
    const Status handled = stream_.Handle(incoming_);
    if (!handled.ok()) {
      Close(ToGrpc(handled));
      return;
    }
    MaybeWrite();
    const MutexLock lock(mu_);
    if (stream_.holds_reading()) {
      read_paused_ = true;
    } else if (!closed_) {
      StartRead(&incoming_);
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
      if (read_paused_ && !closed_ && !stream_.holds_reading()) {
        read_paused_ = false;
        StartRead(&incoming_);
      }
    }
    MaybeWrite();
  }

  void OnCancel() override { Close(grpc::Status::CANCELLED); }

  void OnDone() override {
    worker_.router().Remove(number_);
    worker_.gateways().Detach(number_);
    receiver_->Detach();
    instance_.CancelStream(number_);
    log_.Info("gateway detached", {{"gateway", stream_.gateway()}});
    delete this;
  }

  void OnStep(StepOutput&& output) {
    stream_.OnStep(std::move(output));
    MaybeWrite();
  }

 private:
  void MaybeWrite() {
    const MutexLock lock(mu_);
    if (writing_ || closed_ || !stream_.TakeNext(outgoing_)) return;
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
  const uint64_t number_;
  Target target_;
  GatewayStream stream_;
  v1::ToAttention incoming_;    // only for the reading side
  v1::FromAttention outgoing_;  // written by the thread that sets writing_

  Mutex mu_;
  bool writing_ JANUS_GUARDED_BY(mu_) = false;
  bool closed_ JANUS_GUARDED_BY(mu_) = false;
  bool read_paused_ JANUS_GUARDED_BY(mu_) = false;
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

grpc::ServerBidiReactor<v1::ToAttention, v1::FromAttention>* TokensService::Attach(
    grpc::CallbackServerContext*) {
  const Result<AttentionInstance*> instance = worker_.attention();
  if (!instance.ok()) return new Refusal(ToGrpc(instance.status()));
  return new Attachment(worker_, **instance, log_);
}

}  // namespace janus::dataplane
