#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/gateway_counts.h"
#include "common/log.h"
#include "dataplane/gateway/generation.h"

namespace grpc {
class ChannelCredentials;
}

namespace janus::gateway {

class AttentionPool;

// The token stream to one attention instance (proto/tokens.proto). It dials, sends Hello, and dials
// again with growing pauses when the stream ends. It passes received messages to the pool on gRPC's
// threads, one call at a time. Thread-safe.
class AttentionLink {
 public:
  struct Options {
    std::string address;
    std::string gateway_id;
    std::string service_uid;
    uint32_t step_credits = 64;
    std::shared_ptr<grpc::ChannelCredentials> credentials{};  // null: plain text
  };
  // `pool` must outlive Stop().
  static std::shared_ptr<AttentionLink> Create(Options options, AttentionPool* pool, Logger log);
  virtual ~AttentionLink() = default;

  virtual void Start() = 0;
  // Ends the stream for good, without waiting. May be called anywhere; Stop must still follow.
  virtual void Close() = 0;
  // Ends the stream and waits until no call to the pool runs or will follow. Must not be called
  // from within such a call.
  virtual void Stop() = 0;

  // Puts the message on the current stream. Without a stream it is lost, and OnDown reports that to
  // the pool. At most one Submit and one Cancel per open request are queued, and the pool bounds
  // open requests.
  virtual void Submit(uint64_t id, uint32_t attempt, const GenerationRequest& request,
                      std::span<const int32_t> generated) = 0;
  virtual void Cancel(uint64_t id, uint32_t attempt) = 0;
  // Likewise. At most one report is queued: a newer one takes the place of one that is not on its
  // way yet.
  virtual void SendCounts(const GatewayCounts& counts) = 0;
};

}  // namespace janus::gateway
