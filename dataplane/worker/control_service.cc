#include "dataplane/worker/control_service.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "dataplane/worker/describe_model.h"
#include "dataplane/worker/topology_watcher.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

// Reports progress at every further hundredth, not per tensor.
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

// Returns when the worker's epoch is lost, or after `within`. A look takes a mutex and a flag.
void AwaitLoss(const Worker& worker, std::chrono::milliseconds within,
               const Relay::KeepWaiting& keep_waiting) {
  constexpr std::chrono::milliseconds kLook{50};
  constexpr std::chrono::milliseconds kLongest{10'000};
  const MonotonicTime until = MonotonicClock::now() + std::min(within, kLongest);
  while (worker.serves() && MonotonicClock::now() < until && keep_waiting()) {
    std::this_thread::sleep_for(kLook);
  }
}

template <class Reply>
grpc::Status Answer(Relay::Failures failures, Reply& reply) {
  for (v1::MemberFailure& one : failures) reply.mutable_failures()->Add(std::move(one));
  return grpc::Status::OK;
}

}  // namespace

Status ControlService::CheckRelay(const Relay::Targets& targets) const {
  if (worker_.flags().role != Role::kAttention) {
    return PermissionDenied("an expert instance relays no calls; an attention instance does");
  }
  return Relay::Check(targets);
}

Status ControlService::CheckRelay(const v1::Stamp& stamp, const Relay::Targets& targets) {
  JANUS_RETURN_IF_ERROR(CheckRelay(targets));
  return worker_.Accept(FromProto(stamp));
}

grpc::Status ControlService::Prepare(grpc::ServerContext* context,
                                     const v1::PrepareRequest* request,
                                     grpc::ServerWriter<v1::PrepareProgress>* progress) {
  if (!request->relay().empty()) return RelayPrepare(*context, *request, *progress);
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

// Forwards every report of a member, because reports also show that it is alive.
grpc::Status ControlService::RelayPrepare(grpc::ServerContext& context,
                                          const v1::PrepareRequest& request,
                                          grpc::ServerWriter<v1::PrepareProgress>& progress) {
  if (Status s = CheckRelay(request.stamp(), request.relay()); !s.ok()) return ToGrpc(s);
  if (!request.epoch_key().empty()) {
    return ToGrpc(
        InvalidArgument("epoch_key: must be empty; the instance that relays a Prepare draws it"));
  }
  v1::PrepareProgress last;
  Relay::Failures failures = relay_.Prepare(request, [&](const v1::PrepareProgress& now) {
    if (context.IsCancelled()) return false;
    if (google::protobuf::util::MessageDifferencer::Equals(now, last)) return true;
    last = now;
    return progress.Write(now);
  });
  v1::PrepareProgress done;
  done.set_done(true);
  Answer(std::move(failures), done);
  progress.Write(done);
  return grpc::Status::OK;
}

grpc::Status ControlService::Commit(grpc::ServerContext* context, const v1::CommitRequest* request,
                                    v1::CommitReply* reply) {
  if (request->relay().empty()) return ToGrpc(worker_.Commit(FromProto(request->stamp())));
  if (Status s = CheckRelay(request->stamp(), request->relay()); !s.ok()) return ToGrpc(s);
  if (Status s = Relay::Check(request->leavers()); !s.ok()) return ToGrpc(s);
  return Answer(
      relay_.Commit(*request, context->deadline(), [&] { return !context->IsCancelled(); }),
      *reply);
}

grpc::Status ControlService::Abort(grpc::ServerContext* context, const v1::AbortRequest* request,
                                   v1::AbortReply* reply) {
  if (request->relay().empty()) return ToGrpc(worker_.Abort(FromProto(request->stamp())));
  if (Status s = CheckRelay(request->stamp(), request->relay()); !s.ok()) return ToGrpc(s);
  return Answer(
      relay_.Abort(*request, context->deadline(), [&] { return !context->IsCancelled(); }), *reply);
}

grpc::Status ControlService::Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                                   v1::DrainReply* reply) {
  const auto waits = [&] { return !context->IsCancelled(); };
  if (!request->relay().empty()) {
    if (Status s = CheckRelay(request->stamp(), request->relay()); !s.ok()) return ToGrpc(s);
    return Answer(relay_.Drain(*request, context->deadline(), waits), *reply);
  }
  const auto left = context->deadline() - std::chrono::system_clock::now();
  constexpr auto kLongest = std::chrono::hours(24);
  const MonotonicTime deadline =
      MonotonicClock::now() + std::min<std::chrono::system_clock::duration>(left, kLongest);
  return ToGrpc(worker_.Drain(FromProto(request->stamp()), deadline, waits));
}

grpc::Status ControlService::Supersede(grpc::ServerContext* context,
                                       const v1::SupersedeRequest* request,
                                       v1::SupersedeReply* reply) {
  if (!request->relay().empty()) {
    if (Status s = CheckRelay(request->stamp(), request->relay()); !s.ok()) return ToGrpc(s);
    return Answer(
        relay_.Supersede(*request, context->deadline(), [&] { return !context->IsCancelled(); }),
        *reply);
  }
  Result<Topology> successor = FromProto(request->successor());
  if (!successor.ok()) return ToGrpc(successor.status());
  return ToGrpc(worker_.Supersede(FromProto(request->stamp()),
                                  {*std::move(successor), request->text_digest()}));
}

grpc::Status ControlService::GetTopology(grpc::ServerContext*,
                                         const v1::GetTopologyRequest* request,
                                         v1::GetTopologyReply* reply) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return ToGrpc(s);
  if (Status s = worker_.CheckPool(request->pool()); !s.ok()) return ToGrpc(s);
  reply->set_fence(worker_.fence());
  if (const std::optional<Topology> topology = worker_.TopologyFor(request->text_digest())) {
    *reply->mutable_committed() = ToProto(*topology);
  }
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::GetTopologyReply>* ControlService::WatchTopology(
    grpc::CallbackServerContext*, const v1::GetTopologyRequest* request) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return RefuseWatch(s);
  if (Status s = worker_.CheckPool(request->pool()); !s.ok()) return RefuseWatch(s);
  return WatchTopologies(worker_, request->text_digest(), watchers_);
}

grpc::Status ControlService::GetStatistics(grpc::ServerContext* context,
                                           const v1::GetStatisticsRequest* request,
                                           v1::Statistics* reply) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return ToGrpc(s);
  const std::optional<Topology> topology = worker_.topology();
  if (!request->relay().empty()) {
    if (Status s = CheckRelay(request->relay()); !s.ok()) return ToGrpc(s);
    const auto keep_waiting = [&] { return !context->IsCancelled(); };
    AwaitLoss(worker_, std::chrono::milliseconds(request->until_loss_ms()), keep_waiting);
    // A member that hangs must not keep this answer while the epoch is lost because of it.
    constexpr std::chrono::seconds kAfterWaiting{1};
    auto until = context->deadline();
    if (request->until_loss_ms() > 0) {
      until = std::min(until, std::chrono::system_clock::now() + kAfterWaiting);
    }
    *reply = relay_.GetStatistics(*request, !worker_.serves(), until, keep_waiting);
  } else {
    *reply->add_instances() = ToProto(worker_.statistics());
    AddToProto(worker_.routing(request->with_popularity(), request->with_rounds()), *reply);
    AddToProto(worker_.gateways().Read(), *reply);
    AddToProto(worker_.traces(request->with_spans()), *reply);
  }
  if (topology) reply->set_epoch(topology->epoch);
  return grpc::Status::OK;
}

grpc::Status ControlService::DescribeModel(grpc::ServerContext*,
                                           const v1::DescribeModelRequest* request,
                                           v1::DescribeModelReply* reply) {
  if (Status s = worker_.CheckService(request->service_uid()); !s.ok()) return ToGrpc(s);
  const Result<ModelReport> report =
      janus::dataplane::DescribeModel(worker_.flags().model, worker_.context(), cpu_speed_,
                                      worker_.flags().instances, worker_.flags().commit);
  if (!report.ok()) return ToGrpc(report.status());
  *reply = ToProto(*report);
  return grpc::Status::OK;
}

}  // namespace janus::dataplane
