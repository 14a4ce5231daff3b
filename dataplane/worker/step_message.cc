#include "dataplane/worker/step_message.h"

#include <bit>

namespace janus::dataplane {
namespace {

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_NONE;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
    case FinishReason::kError:
      return v1::FINISH_REASON_ERROR;
    case FinishReason::kComplete:
      return v1::FINISH_REASON_COMPLETE;
  }
  return v1::FINISH_REASON_ERROR;
}

void Fill(const TokenLogprobs& from, v1::PositionLogprobs& to) {
  to.set_logprob(from.logprob);
  for (const auto& [token, logprob] : from.top) {
    v1::TokenLogprob& top = *to.add_top();
    top.set_token(static_cast<uint32_t>(token));
    top.set_logprob(logprob);
  }
}

}  // namespace

void AddEvent(const TokenEvent& event, v1::RequestTokens& to) {
  to.set_request_id(event.key.id);
  to.set_attempt(event.key.attempt);
  if (event.token >= 0) to.add_tokens(static_cast<uint32_t>(event.token));
  if (event.cached_prompt_tokens > 0) {
    to.set_cached_prompt_tokens(static_cast<uint32_t>(event.cached_prompt_tokens));
  }
  if (event.has_logprobs) Fill(event.logprobs, *to.add_logprobs());
  if (!event.prompt_logprobs.empty()) {
    // Pieces that wait for credit are consecutive.
    if (to.prompt_logprobs().empty()) {
      to.set_prompt_logprobs_from(static_cast<uint32_t>(event.prompt_logprobs_from));
    }
    for (const TokenLogprobs& position : event.prompt_logprobs) {
      Fill(position, *to.add_prompt_logprobs());
    }
  }
  if (!event.routed.empty()) {
    if (to.routed_experts().empty()) {
      to.set_routed_experts_from(static_cast<uint32_t>(event.routed_from));
    }
    static_assert(std::endian::native == std::endian::little);
    to.mutable_routed_experts()->append(reinterpret_cast<const char*>(event.routed.data()),
                                        event.routed.size() * sizeof(event.routed[0]));
  }
  if (event.has_logits_hash) to.add_logits_hashes(event.logits_hash);
  if (event.finish != FinishReason::kNone) {
    to.set_finish_reason(ToProto(event.finish));
    to.set_error(event.error.message());
    to.set_error_code(static_cast<uint32_t>(event.error.code()));
  }
}

}  // namespace janus::dataplane
