#include "dataplane/worker/control_service.h"

#include "dataplane/worker/topology_watcher.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

// Progress is told when a hundredth more is done, not per tensor.
class Throttle {
 public:
  bool Due(const PrepareProgress& progress) {
    const uint64_t part =
        progress.bytes_total == 0 ? 0 : progress.bytes_done * 100 / progress.bytes_total;
    if (progress.phase == phase_ && part == part_) return false;
    phase_ = progress.phase;
    part_ = part;
    return true;
  }

 private:
  std::string phase_;
  uint64_t part_ = 0;
};

}  // namespace

grpc::Status ControlService::Prepare(grpc::ServerContext* context,
                                     const v1::PrepareRequest* request,
                                     grpc::ServerWriter<v1::PrepareProgress>* progress) {
  const Result<Topology> topology = FromProto(request->topology());
  if (!topology.ok()) return ToGrpc(topology.status());
  Throttle throttle;
  const auto report = [&](const PrepareProgress& now) {
    if (context->IsCancelled()) return false;
    if (!throttle.Due(now)) return true;
    return progress->Write(ToProto(now));
  };
  const Status prepared = worker_.Prepare(FromProto(request->stamp()), *topology, request->config(),
                                          request->epoch_key(), report);
  if (!prepared.ok()) return ToGrpc(prepared);
  v1::PrepareProgress last;
  last.set_done(true);
  progress->Write(last);
  return grpc::Status::OK;
}

grpc::Status ControlService::Commit(grpc::ServerContext*, const v1::CommitRequest* request,
                                    v1::CommitReply*) {
  return ToGrpc(worker_.Commit(FromProto(request->stamp())));
}

grpc::Status ControlService::Abort(grpc::ServerContext*, const v1::AbortRequest* request,
                                   v1::AbortReply*) {
  return ToGrpc(worker_.Abort(FromProto(request->stamp())));
}

grpc::Status ControlService::Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                                   v1::DrainReply*) {
  const auto left = context->deadline() - std::chrono::system_clock::now();
  constexpr auto kLongest = std::chrono::hours(24);
  const MonotonicTime deadline =
      MonotonicClock::now() + std::min<std::chrono::system_clock::duration>(left, kLongest);
  return ToGrpc(worker_.Drain(FromProto(request->stamp()), deadline,
                              [&] { return !context->IsCancelled(); }));
}

grpc::Status ControlService::GetTopology(grpc::ServerContext*,
                                         const v1::GetTopologyRequest* request,
                                         v1::GetTopologyReply* reply) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return ToGrpc(s);
  reply->set_fence(worker_.fence());
  if (const std::optional<Topology> topology = worker_.topology()) {
    *reply->mutable_committed() = ToProto(*topology);
  }
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::GetTopologyReply>* ControlService::WatchTopology(
    grpc::CallbackServerContext*, const v1::GetTopologyRequest* request) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return RefuseWatch(s);
  return WatchCommits(worker_, watchers_);
}

grpc::Status ControlService::GetStatistics(grpc::ServerContext*,
                                           const v1::GetStatisticsRequest* request,
                                           v1::Statistics* reply) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return ToGrpc(s);
  if (const std::optional<Topology> topology = worker_.topology())
    reply->set_epoch(topology->epoch);
  *reply->add_instances() = ToProto(worker_.statistics());
  return grpc::Status::OK;
}

}  // namespace janus::dataplane
