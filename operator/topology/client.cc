#include "operator/topology/client.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <thread>

#include "common/mutex.h"
#include "operator/members/worker_config.h"
#include "proto/control.grpc.pb.h"
#include "proto/convert.h"

namespace janus::control {
namespace {

void SetTimeout(grpc::ClientContext& context, Seconds timeout) {
  // The system clock is what gRPC's deadlines are made of.
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

class GrpcPrepareCall final : public PrepareCall {
 public:
  GrpcPrepareCall(v1::Control::Stub& stub, v1::PrepareRequest request)
      : heard_(MonotonicClock::now()) {
    thread_ = std::jthread([this, &stub, request = std::move(request)] { Follow(stub, request); });
  }
  ~GrpcPrepareCall() override {
    context_.TryCancel();
    thread_.join();
  }

  PrepareProgress progress() const override {
    MutexLock lock(mu_);
    return progress_;
  }
  MonotonicTime last_heard() const override {
    MutexLock lock(mu_);
    return heard_;
  }
  bool done() const override {
    MutexLock lock(mu_);
    return done_;
  }
  Status result() const override {
    MutexLock lock(mu_);
    return result_;
  }

 private:
  void Follow(v1::Control::Stub& stub, const v1::PrepareRequest& request) {
    const auto reader = stub.Prepare(&context_, request);
    v1::PrepareProgress message;
    bool complete = false;
    while (reader->Read(&message)) {
      MutexLock lock(mu_);
      heard_ = MonotonicClock::now();
      if (!message.phase().empty()) progress_.phase = message.phase();
      // Only the phase that moves bytes counts them: the later ones leave its figures.
      if (message.bytes_total() > 0) {
        progress_.bytes_done = message.bytes_done();
        progress_.bytes_total = message.bytes_total();
      }
      if (message.done()) {
        complete = true;
        progress_.bytes_done = progress_.bytes_total;
      }
    }
    Status status = FromGrpc(reader->Finish());
    if (status.ok() && !complete) status = Unavailable("Prepare ended before it was done");
    MutexLock lock(mu_);
    result_ = std::move(status);
    done_ = true;
  }

  grpc::ClientContext context_;
  mutable Mutex mu_;
  PrepareProgress progress_ JANUS_GUARDED_BY(mu_);
  MonotonicTime heard_ JANUS_GUARDED_BY(mu_);
  bool done_ JANUS_GUARDED_BY(mu_) = false;
  Status result_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;
};

class GrpcStatisticsCall final : public StatisticsCall {
 public:
  GrpcStatisticsCall(v1::Control::Stub& stub, const std::string& service_uid, Seconds timeout) {
    SetTimeout(context_, timeout);
    request_.set_service_uid(service_uid);
    stub.async()->GetStatistics(&context_, &request_, &reply_, [this](const grpc::Status& status) {
      const MutexLock lock(mu_);
      result_ = status;
      // Under the lock: who waits may destroy this right after.
      changed_.NotifyAll();
    });
  }
  ~GrpcStatisticsCall() override {
    context_.TryCancel();
    Await();
  }

  Result<Statistics> Wait() override {
    JANUS_RETURN_IF_ERROR(FromGrpc(Await()));
    return FromProto(reply_);
  }

 private:
  grpc::Status Await() {
    const MutexLock lock(mu_);
    while (!result_) changed_.Wait(mu_);
    return *result_;
  }

  grpc::ClientContext context_;
  v1::GetStatisticsRequest request_;
  v1::Statistics reply_;  // gRPC's until result_ is set
  Mutex mu_;
  CondVar changed_;
  std::optional<grpc::Status> result_ JANUS_GUARDED_BY(mu_);
};

}  // namespace

struct TopologyClient::Channel {
  std::unique_ptr<v1::Control::Stub> stub;
};

TopologyClient::TopologyClient(const std::string& target, Leader leader)
    : leader_(std::move(leader)), channel_(std::make_shared<Channel>()) {
  // Unix sockets in a folder that only its user can open need no other credentials.
  channel_->stub =
      v1::Control::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
}

TopologyClient::~TopologyClient() = default;

std::unique_ptr<PrepareCall> TopologyClient::Prepare(const Topology& topology,
                                                     const ServicePlan& plan,
                                                     const PrepareOptions& options) {
  v1::PrepareRequest request;
  *request.mutable_stamp() = ToProto(Stamp{leader_.service_uid, leader_.fence, topology.epoch});
  *request.mutable_topology() = ToProto(topology);
  // All of them run here.
  const int threads = (plan.m + plan.n) * plan.compute_threads;
  *request.mutable_config() = WorkerConfigOf(plan, threads, options.debug_logits_hash);
  request.set_epoch_key(options.epoch_key.data(), options.epoch_key.size());
  return std::make_unique<GrpcPrepareCall>(*channel_->stub, std::move(request));
}

template <class Request, class Reply, class Method>
Status TopologyClient::Write(Method method, uint64_t epoch, Seconds timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  Request request;
  Reply reply;
  *request.mutable_stamp() = ToProto(Stamp{leader_.service_uid, leader_.fence, epoch});
  return FromGrpc((channel_->stub.get()->*method)(&context, request, &reply));
}

Status TopologyClient::Commit(uint64_t epoch, Seconds timeout) {
  return Write<v1::CommitRequest, v1::CommitReply>(&v1::Control::Stub::Commit, epoch, timeout);
}

Status TopologyClient::Abort(uint64_t epoch, Seconds timeout) {
  return Write<v1::AbortRequest, v1::AbortReply>(&v1::Control::Stub::Abort, epoch, timeout);
}

Status TopologyClient::Drain(uint64_t epoch, Seconds timeout) {
  return Write<v1::DrainRequest, v1::DrainReply>(&v1::Control::Stub::Drain, epoch, timeout);
}

std::unique_ptr<StatisticsCall> TopologyClient::AskStatistics(Seconds timeout) {
  return std::make_unique<GrpcStatisticsCall>(*channel_->stub, leader_.service_uid, timeout);
}

}  // namespace janus::control
