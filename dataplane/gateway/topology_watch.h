#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "dataplane/gateway/topology_messages.h"

namespace grpc {
class ChannelCredentials;
}

namespace janus::gateway {

struct TopologyWatchOptions {
  // gRPC addresses to dial at first ("host:port", "unix:/path"), of instances of either role. Later
  // the addresses of the newest topology come before them.
  std::vector<std::string> members;
  std::string service_uid{};
  int pool = 1;               // whose topologies to follow
  std::string text_digest{};  // of the gateway's tokenizer; empty: not known
  std::shared_ptr<grpc::ChannelCredentials> credentials{};  // null: plain text
  Seconds first_answer{1.0};   // a member without a topology is left for the next one after this
  Seconds longest_pause{2.0};  // between two rounds of dialling; grows from 0.1
  // Without an answer for this time, the pool has no instances any more, until a member answers.
  // 0: its last topology stays.
  Seconds forgotten_after{0};
};

// Follows one pool of a service. A gateway is no member. It dials the members one after another,
// and receives every committed topology from the first that answers (Control.WatchTopology), as
// long as its stream lives. If the member hangs, the stream ends after two seconds
// (kPeerLostToWatch). If a topology is impossible, or older than one received before (from a member
// that missed an epoch), it is dropped and the next member is asked. One thread. Thread-safe.
class TopologyWatch {
 public:
  // `on_change` is called with every newer topology, one call at a time, from the watch's thread.
  // It is called without instances when the pool is forgotten. `on_change` outlives the watch.
  static std::unique_ptr<TopologyWatch> Start(
      TopologyWatchOptions options, std::function<void(const AttentionMembers&)> on_change,
      Logger log);
  virtual ~TopologyWatch() = default;  // afterwards on_change is not called
};

}  // namespace janus::gateway
