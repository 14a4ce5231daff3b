#include "operator/topology/client.h"

#include <grpcpp/grpcpp.h>

#include <thread>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "proto/convert.h"

namespace janus::control {
namespace {

// 16, UNAUTHENTICATED, is not among ours: to act on it is to act on a refused permission.
Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  const int code = status.error_code();
  if (code < 1 || code > 15) return PermissionDenied(status.error_message());
  return {static_cast<StatusCode>(code), status.error_message()};
}

v1::Stamp StampOf(const Leader& leader, uint64_t epoch) {
  v1::Stamp stamp;
  stamp.set_service_uid(leader.service_uid);
  stamp.set_fence(leader.fence);
  stamp.set_epoch(epoch);
  return stamp;
}

v1::WorkerConfig ConfigOf(const ServicePlan& plan, bool debug_logits_hash) {
  v1::WorkerConfig config;
  config.set_dtype(ToProto(plan.dtype));
  config.set_max_model_len(static_cast<uint64_t>(plan.max_model_len));
  config.set_max_batch_size(static_cast<uint32_t>(plan.max_batch_size));
  config.set_kv_block_size(16);
  config.set_kv_bytes(static_cast<uint64_t>(plan.kv_bytes));
  config.set_swap_bytes(static_cast<uint64_t>(plan.swap_bytes));
  config.set_queued_requests(static_cast<uint32_t>(plan.queued_requests));
  config.set_scheduling(ToProto(plan.effective.scheduling));
  config.set_compute_threads(static_cast<uint32_t>(plan.compute_threads));
  config.set_debug_logits_hash(debug_logits_hash);
  config.set_tpot_target_ms(static_cast<uint32_t>(plan.tpot_target_milliseconds));
  config.set_transport_shared_memory(true);
  return config;
}

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
      if (message.bytes_total() > 0 || !message.phase().empty()) {
        progress_ = {message.phase(), message.bytes_done(), message.bytes_total()};
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
  *request.mutable_stamp() = StampOf(leader_, topology.epoch);
  *request.mutable_topology() = ToProto(topology);
  *request.mutable_config() = ConfigOf(plan, options.debug_logits_hash);
  request.set_epoch_key(options.epoch_key.data(), options.epoch_key.size());
  return std::make_unique<GrpcPrepareCall>(*channel_->stub, std::move(request));
}

Status TopologyClient::Commit(uint64_t epoch, Seconds timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  v1::CommitRequest request;
  v1::CommitReply reply;
  *request.mutable_stamp() = StampOf(leader_, epoch);
  return FromGrpc(channel_->stub->Commit(&context, request, &reply));
}

Status TopologyClient::Abort(uint64_t epoch, Seconds timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  v1::AbortRequest request;
  v1::AbortReply reply;
  *request.mutable_stamp() = StampOf(leader_, epoch);
  return FromGrpc(channel_->stub->Abort(&context, request, &reply));
}

Status TopologyClient::Drain(uint64_t epoch, Seconds timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  v1::DrainRequest request;
  v1::DrainReply reply;
  *request.mutable_stamp() = StampOf(leader_, epoch);
  return FromGrpc(channel_->stub->Drain(&context, request, &reply));
}

Result<Statistics> TopologyClient::GetStatistics(Seconds timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  v1::GetStatisticsRequest request;
  request.set_service_uid(leader_.service_uid);
  v1::Statistics reply;
  JANUS_RETURN_IF_ERROR(FromGrpc(channel_->stub->GetStatistics(&context, request, &reply)));
  Statistics out;
  out.epoch = reply.epoch();
  for (const v1::InstanceStatistics& instance : reply.instances()) {
    out.instances.push_back(FromProto(instance));
  }
  return out;
}

}  // namespace janus::control
