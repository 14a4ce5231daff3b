#include "operator/members/grpc_model_questions.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "proto/convert.h"
#include "rpc/channel.h"

namespace janus::control {
namespace {

// A worker reads some kilobytes of each model file, perhaps from slow remote storage.
constexpr std::chrono::seconds kAnswer{30};

// `wake` runs under the lock, and the destructor takes that lock, so `wake` never runs after it.
class Question final : public ModelQuestion {
 public:
  Question(const std::string& service_uid, const std::string& address,
           const std::shared_ptr<grpc::ChannelCredentials>& credentials, ModelQuestions::Wake wake)
      : wake_(std::move(wake)), stub_(v1::Control::NewStub(DialInstance(address, credentials))) {
    request_.set_service_uid(service_uid);
    context_.set_deadline(std::chrono::system_clock::now() + kAnswer);
    stub_->async()->DescribeModel(&context_, &request_, &reply_,
                                  [this](const grpc::Status& status) { End(status); });
  }
  ~Question() override {
    const MutexLock lock(mu_);
    cancelled_ = true;
    if (!done_) context_.TryCancel();
    while (!done_) over_.Wait(mu_);
  }

  bool done() const override {
    const MutexLock lock(mu_);
    return done_;
  }
  Result<ModelReport> result() const override {
    const MutexLock lock(mu_);
    return result_;
  }

 private:
  void End(const grpc::Status& status) {
    Result<ModelReport> result = status.ok() ? FromProto(reply_) : FromGrpc(status);
    const MutexLock lock(mu_);
    result_ = std::move(result);
    done_ = true;
    if (!cancelled_ && wake_) wake_();
    over_.NotifyAll();  // under the lock, because the waiting thread destroys this right after
  }

  const ModelQuestions::Wake wake_;
  const std::unique_ptr<v1::Control::Stub> stub_;
  v1::DescribeModelRequest request_;
  v1::DescribeModelReply reply_;  // written by gRPC until it is done
  mutable Mutex mu_;
  CondVar over_;
  bool cancelled_ JANUS_GUARDED_BY(mu_) = false;
  bool done_ JANUS_GUARDED_BY(mu_) = false;
  Result<ModelReport> result_ JANUS_GUARDED_BY(mu_) = Unavailable("");
  grpc::ClientContext context_;
};

}  // namespace

std::unique_ptr<ModelQuestion> GrpcModelQuestions::Ask(const std::string& service_uid,
                                                       const std::string& address, Wake wake) {
  const Connections::Security security =
      security_ ? security_(service_uid) : Connections::Security{};
  return std::make_unique<Question>(service_uid, address, security.Credentials(), std::move(wake));
}

}  // namespace janus::control
