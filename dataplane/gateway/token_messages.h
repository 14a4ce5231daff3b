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

// The messages of proto/tokens.proto in the gateway's terms, and back. What comes is outside data:
// each function's InvalidArgument names the field that breaks the protocol, and the stream must
// end.

// The first message of an instance.
Result<AttentionCapacity> ReadWelcome(const v1::FromAttention& message);

struct AttentionEvents {
  std::vector<AttentionPool::RequestEvent> requests;
  std::optional<AttentionLoad> load;  // a refusal says nothing of it
};
// Any later one. Events of a step hold `credit` until they are handled.
Result<AttentionEvents> ReadEvents(const v1::FromAttention& message,
                                   const std::shared_ptr<const void>& credit);

v1::ToAttention SubmitMessage(uint64_t id, uint32_t attempt, const GenerationRequest& request,
                              std::span<const int32_t> generated);

}  // namespace janus::gateway
