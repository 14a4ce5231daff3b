#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "common/status.h"
#include "proto/convert.h"
#include "rpc/channel.h"

namespace janus::control {

// A unary call over a connection of its own, as a question of interface `Base` with a result of
// type `Value`. `wake` runs under the lock, and the destructor takes that lock, so `wake` never
// runs after it. Thread-safe.
template <class Base, class Service, class Request, class Reply, class Value>
class GrpcQuestion final : public Base {
 public:
  // `start(async stub, context, request, reply, done)` starts the call.
  template <class Wake, class Start>
  GrpcQuestion(const std::string& address,
               const std::shared_ptr<grpc::ChannelCredentials>& credentials, Request request,
               std::chrono::seconds longest, Wake wake, const Start& start)
      : wake_(std::move(wake)),
        stub_(Service::NewStub(DialInstance(address, credentials))),
        request_(std::move(request)) {
    context_.set_deadline(std::chrono::system_clock::now() + longest);
    start(*stub_->async(), &context_, &request_, &reply_,
          [this](const grpc::Status& status) { End(status); });
  }
  ~GrpcQuestion() override {
    const MutexLock lock(mu_);
    cancelled_ = true;
    if (!done_) context_.TryCancel();
    while (!done_) over_.Wait(mu_);
  }
  GrpcQuestion(const GrpcQuestion&) = delete;
  GrpcQuestion& operator=(const GrpcQuestion&) = delete;

  bool done() const override {
    const MutexLock lock(mu_);
    return done_;
  }
  Result<Value> result() const override {
    const MutexLock lock(mu_);
    return result_;
  }

 private:
  void End(const grpc::Status& status) {
    Result<Value> result = status.ok() ? FromProto(reply_) : FromGrpc(status);
    const MutexLock lock(mu_);
    result_ = std::move(result);
    done_ = true;
    if (!cancelled_ && wake_) wake_();
    over_.NotifyAll();  // under the lock, because the waiting thread destroys this right after
  }

  const std::function<void()> wake_;
  const std::unique_ptr<typename Service::Stub> stub_;
  const Request request_;
  Reply reply_;  // written by gRPC until it is done
  mutable Mutex mu_;
  CondVar over_;
  bool cancelled_ JANUS_GUARDED_BY(mu_) = false;
  bool done_ JANUS_GUARDED_BY(mu_) = false;
  Result<Value> result_ JANUS_GUARDED_BY(mu_) = Unavailable("");
  grpc::ClientContext context_;
};

}  // namespace janus::control
