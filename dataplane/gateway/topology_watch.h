#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "dataplane/gateway/gateway_metrics.h"
#include "dataplane/gateway/topology_messages.h"

namespace grpc {
class ChannelCredentials;
}

namespace janus::gateway {

struct TopologyWatchOptions {
  // gRPC addresses to dial at first ("host:port", "unix:/path"), of instances of either role; then
  // those of the newest topology come before them.
  std::vector<std::string> members;
  std::string service_uid{};
  std::string text_digest{};  // of the gateway's tokenizer; empty: not known
  std::shared_ptr<grpc::ChannelCredentials> credentials{};  // null: plain text
  Seconds first_answer{1.0};   // a member that has no topology yet is left for the next after it
  Seconds longest_pause{2.0};  // between two rounds of dialling; grows from 0.1
};

// A gateway is no member: it dials the members one after another and takes every committed topology
// from the one that answers (Control.WatchTopology), as long as that lives. What is older than what
// was seen, as a member that missed an epoch tells it, or can be no topology is dropped, and the
// next member is asked. One thread. Thread-safe.
class TopologyWatch {
 public:
  // Called with every newer topology, one call at a time, from the watch's thread. `on_change` and
  // `metrics` outlive the watch.
  static std::unique_ptr<TopologyWatch> Start(
      TopologyWatchOptions options, std::function<void(const AttentionMembers&)> on_change,
      GatewayMetrics& metrics, Logger log);
  virtual ~TopologyWatch() = default;  // no call follows
};

}  // namespace janus::gateway
