#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "proto/control.grpc.pb.h"

namespace janus::dataplane {

// Says the operator's calls to the members of an epoch (api.md, MoETopology: the operator has one
// connection per service). Every member is called by its address, this worker too if it is listed.
// Calls block; members are called at once and hold no threads. Thread-safe.
class Relay {
 public:
  using Targets = google::protobuf::RepeatedPtrField<v1::RelayTarget>;
  using Failures = std::vector<v1::MemberFailure>;
  // Asked ten times a second; false: every call is cancelled.
  using KeepWaiting = std::function<bool()>;
  using Deadline = std::chrono::system_clock::time_point;

  // Null: in plain text.
  explicit Relay(std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr)
      : credentials_(std::move(credentials)) {}

  // InvalidArgument: too many targets, or one without an address.
  static Status Check(const Targets& targets);

  // Prepare of all with a fresh epoch key. The first that fails ends it for all. `report` is called
  // from the calling thread whenever something was heard, and often enough to serve as KeepWaiting.
  Failures Prepare(const v1::PrepareRequest& request,
                   const std::function<bool(const v1::PrepareProgress&)>& report);
  // To the experts first, so that senders find them ready; to all even if some fail. Then
  // those that leave are drained.
  Failures Commit(const v1::CommitRequest& request, Deadline deadline,
                  const KeepWaiting& keep_waiting);
  Failures Abort(const v1::AbortRequest& request, Deadline deadline,
                 const KeepWaiting& keep_waiting);
  Failures Drain(const v1::DrainRequest& request, Deadline deadline,
                 const KeepWaiting& keep_waiting);
  Failures Supersede(const v1::SupersedeRequest& request, Deadline deadline,
                     const KeepWaiting& keep_waiting);
  // Joined, popularity added up by layer; members that do not answer are in `silent`.
  v1::Statistics GetStatistics(const v1::GetStatisticsRequest& request, Deadline deadline,
                               const KeepWaiting& keep_waiting);

 private:
  using StubPtr = std::shared_ptr<v1::Control::Stub>;
  struct Line {
    std::shared_ptr<grpc::Channel> channel;
    StubPtr stub;
  };
  // To each target. Connections are kept while they are asked for: those of other targets than the
  // ones of a Prepare are let go (`only_these`).
  std::vector<StubPtr> StubsFor(const std::vector<const v1::RelayTarget*>& targets,
                                bool only_these = false);

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  Mutex mu_;
  std::map<std::string, Line> lines_ JANUS_GUARDED_BY(mu_);  // by address
};

}  // namespace janus::dataplane
