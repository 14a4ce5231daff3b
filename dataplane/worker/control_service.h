#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "dataplane/worker/cpu_speed.h"
#include "dataplane/worker/relay.h"
#include "dataplane/worker/worker.h"
#include "proto/control.grpc.pb.h"

namespace janus::dataplane {

// janus.v1.Control over a Worker. Calls block their gRPC thread, and the server bounds these
// threads. WatchTopology holds no thread, because many watchers would keep the operator out.
class ControlService final
    : public v1::Control::WithCallbackMethod_WatchTopology<v1::Control::Service> {
 public:
  // `relaying`: credentials for calls to other members; null: plain text.
  explicit ControlService(Worker& worker,
                          std::shared_ptr<grpc::ChannelCredentials> relaying = nullptr)
      : worker_(worker), relay_(std::move(relaying)) {}

  grpc::Status Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                       grpc::ServerWriter<v1::PrepareProgress>* progress) override;
  grpc::Status Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                      v1::CommitReply* reply) override;
  grpc::Status Abort(grpc::ServerContext* context, const v1::AbortRequest* request,
                     v1::AbortReply* reply) override;
  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainReply* reply) override;
  grpc::Status Supersede(grpc::ServerContext* context, const v1::SupersedeRequest* request,
                         v1::SupersedeReply* reply) override;
  grpc::Status GetTopology(grpc::ServerContext*, const v1::GetTopologyRequest* request,
                           v1::GetTopologyReply* reply) override;
  grpc::ServerWriteReactor<v1::GetTopologyReply>* WatchTopology(
      grpc::CallbackServerContext* context, const v1::GetTopologyRequest* request) override;
  grpc::Status GetStatistics(grpc::ServerContext* context, const v1::GetStatisticsRequest* request,
                             v1::Statistics* reply) override;
  grpc::Status DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest* request,
                             v1::DescribeModelReply* reply) override;

 private:
  grpc::Status RelayPrepare(grpc::ServerContext& context, const v1::PrepareRequest& request,
                            grpc::ServerWriter<v1::PrepareProgress>& progress);
  Status CheckRelay(const Relay::Targets& targets) const;
  // For a write: the relaying instance refuses an older leader on behalf of all targets.
  Status CheckRelay(const v1::Stamp& stamp, const Relay::Targets& targets);

  Worker& worker_;
  Relay relay_;
  CpuSpeedOnce cpu_speed_;
  std::atomic<int> watchers_{0};
};

}  // namespace janus::dataplane
