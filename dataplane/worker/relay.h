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

// Relays the operator's calls to the members of an epoch (api.md, MoETopology: the operator has one
// connection per service). It calls every member by its address, including this worker if it is
// listed. Calls block. Members are called at the same time, without a thread for each. Thread-safe.
class Relay {
 public:
  using Targets = google::protobuf::RepeatedPtrField<v1::RelayTarget>;
  using Failures = std::vector<v1::MemberFailure>;
  // Called ten times a second; false cancels all calls.
  using KeepWaiting = std::function<bool()>;
  using Deadline = std::chrono::system_clock::time_point;

  // Null: plain text.
  explicit Relay(std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr)
      : credentials_(std::move(credentials)) {}

  // InvalidArgument: too many targets, or one without an address.
  static Status Check(const Targets& targets);

  // Calls Prepare of all members with a fresh epoch key. The first failure cancels the others.
  // `report` is called from the calling thread after every report of a member, and often enough to
  // serve as KeepWaiting.
  Failures Prepare(const v1::PrepareRequest& request,
                   const std::function<bool(const v1::PrepareProgress&)>& report);
  // Calls the experts first, so that they are ready for senders; calls all even if some fail. Then
  // drains the members that leave.
  Failures Commit(const v1::CommitRequest& request, Deadline deadline,
                  const KeepWaiting& keep_waiting);
  Failures Abort(const v1::AbortRequest& request, Deadline deadline,
                 const KeepWaiting& keep_waiting);
  Failures Drain(const v1::DrainRequest& request, Deadline deadline,
                 const KeepWaiting& keep_waiting);
  Failures Supersede(const v1::SupersedeRequest& request, Deadline deadline,
                     const KeepWaiting& keep_waiting);
  // Joins the statistics, adds up popularity by layer and takes the newest report of each gateway.
  // Members that do not answer are in `silent`; after a loss within kSilentAfterLoss, because the
  // next epoch waits for this answer.
  static constexpr std::chrono::milliseconds kSilentAfterLoss{500};
  v1::Statistics GetStatistics(const v1::GetStatisticsRequest& request, bool is_lost,
                               Deadline deadline, const KeepWaiting& keep_waiting);

 private:
  using StubPtr = std::shared_ptr<v1::Control::Stub>;
  struct Line {
    std::shared_ptr<grpc::Channel> channel;
    StubPtr stub;
  };
  // One stub per target. Connections are kept. With `only_these` (Prepare), connections to other
  // targets are closed.
  std::vector<StubPtr> StubsFor(const std::vector<const v1::RelayTarget*>& targets,
                                bool only_these = false);

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  Mutex mu_;
  std::map<std::string, Line> lines_ JANUS_GUARDED_BY(mu_);  // by address
};

}  // namespace janus::dataplane
