#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "dataplane/gateway/attention_pool.h"
#include "dataplane/gateway/generation.h"
#include "proto/tokens.pb.h"

namespace janus::gateway {

// Converts the messages of proto/tokens.proto into the gateway's types, and back. Received messages
// are outside data. InvalidArgument names the field that breaks the protocol; the caller must then
// end the stream.

// Reads the first message of an instance.
Result<AttentionCapacity> ReadWelcome(const v1::FromAttention& message);

struct AttentionEvents {
  std::vector<AttentionPool::RequestEvent> requests;
  std::optional<AttentionLoad> load;  // absent in a refusal
};
// Reads any later message. Events of a step hold `credit` until they are handled.
Result<AttentionEvents> ReadEvents(const v1::FromAttention& message,
                                   const std::shared_ptr<const void>& credit);

v1::ToAttention SubmitMessage(uint64_t id, uint32_t attempt, const GenerationRequest& request,
                              std::span<const int32_t> generated);

v1::ToAttention CountsMessage(const GatewayCounts& counts);

}  // namespace janus::gateway
