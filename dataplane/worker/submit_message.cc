#include "dataplane/worker/submit_message.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

// The instance knows the vocabulary and refuses ids beyond it, including those truncated here.
std::vector<int32_t> ToTokens(const google::protobuf::RepeatedField<uint32_t>& ids) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(ids.size()));
  for (const uint32_t id : ids) {
    tokens.push_back(static_cast<int32_t>(std::min<uint32_t>(id, INT32_MAX)));
  }
  return tokens;
}

Status ReadChanges(const v1::Sampling& sampling, SamplingChanges& changes) {
  constexpr int kMostBiases = 4096;
  if (sampling.logit_bias_size() > kMostBiases) {
    return InvalidArgument(std::to_string(sampling.logit_bias_size()) + " logit_bias: at most " +
                           std::to_string(kMostBiases));
  }
  std::unordered_set<uint32_t> tokens;
  for (const v1::TokenBias& bias : sampling.logit_bias()) {
    if (bias.token() > INT32_MAX || !tokens.insert(bias.token()).second) {
      return InvalidArgument("logit_bias of token " + std::to_string(bias.token()) +
                             ": not a token, or listed twice");
    }
    changes.bias.emplace_back(static_cast<int32_t>(bias.token()), bias.bias());
  }
  if (sampling.min_tokens() > INT32_MAX) {
    return InvalidArgument("min_tokens " + std::to_string(sampling.min_tokens()) + ": at most " +
                           std::to_string(INT32_MAX));
  }
  changes.min_tokens = static_cast<int>(sampling.min_tokens());
  changes.repetition_penalty =
      sampling.repetition_penalty() == 0.0f ? 1.0f : sampling.repetition_penalty();
  changes.frequency_penalty = sampling.frequency_penalty();
  changes.presence_penalty = sampling.presence_penalty();
  changes.min_p = sampling.min_p();
  return OkStatus();
}

}  // namespace

Result<Request> ToRequest(const v1::Submit& submit, uint64_t stream, int64_t max_model_len) {
  constexpr uint32_t kMostLogprobs = kernels::kMaxLogprobs;
  constexpr int kMostStopTokens = 1024;
  constexpr size_t kMostIdBytes = 256;
  if (submit.prompt_tokens_size() == 0) return InvalidArgument("the prompt is empty");
  const int64_t tokens = int64_t{submit.prompt_tokens_size()} + submit.generated_tokens_size();
  if (tokens >= max_model_len) {
    return InvalidArgument("prompt and answer so far have " + std::to_string(tokens) +
                           " tokens; at most " + std::to_string(max_model_len - 1) +
                           " leave room for an answer");
  }
  if (submit.stop_tokens_size() > kMostStopTokens) {
    return InvalidArgument(std::to_string(submit.stop_tokens_size()) + " stop_tokens: at most " +
                           std::to_string(kMostStopTokens));
  }
  if (submit.max_tokens() < 1 || submit.max_tokens() > INT32_MAX) {
    return InvalidArgument("max_tokens " + std::to_string(submit.max_tokens()) +
                           ": want at least 1");
  }
  const v1::Sampling& sampling = submit.sampling();
  if (!std::isfinite(sampling.temperature()) || sampling.temperature() < 0) {
    return InvalidArgument("temperature " + std::to_string(sampling.temperature()) +
                           ": want 0 or more");
  }
  const float top_p = sampling.top_p() == 0.0f ? 1.0f : sampling.top_p();
  if (!(top_p > 0.0f && top_p <= 1.0f)) {
    return InvalidArgument("top_p " + std::to_string(sampling.top_p()) +
                           ": want more than 0, at most 1");
  }
  if (submit.logprobs() > kMostLogprobs + 1) {
    return InvalidArgument("logprobs of " + std::to_string(submit.logprobs() - 1) +
                           " tokens: at most " + std::to_string(kMostLogprobs));
  }
  if (submit.prompt_logprobs() > kMostLogprobs + 1) {
    return InvalidArgument("prompt_logprobs of " + std::to_string(submit.prompt_logprobs() - 1) +
                           " tokens: at most " + std::to_string(kMostLogprobs));
  }
  if (submit.routed_experts() > tokens + 1) {
    return InvalidArgument("routed_experts from position " +
                           std::to_string(submit.routed_experts() - 1) + " of " +
                           std::to_string(tokens));
  }
  if (submit.client_request_id().size() > kMostIdBytes ||
      submit.traceparent().size() > kMostIdBytes) {
    return InvalidArgument("an id for logs has more than " + std::to_string(kMostIdBytes) +
                           " bytes");
  }
  if (sampling.top_k() > INT32_MAX)
    return InvalidArgument("top_k " + std::to_string(sampling.top_k()) + ": at most " +
                           std::to_string(INT32_MAX));
  Request request;
  request.key = {stream, submit.request_id(), submit.attempt()};
  request.prompt = ToTokens(submit.prompt_tokens());
  request.generated = ToTokens(submit.generated_tokens());
  request.max_tokens = static_cast<int>(submit.max_tokens());
  request.temperature = sampling.temperature();
  request.top_k = static_cast<int>(sampling.top_k());
  request.top_p = top_p;
  request.seed = sampling.seed();
  for (const uint32_t token : submit.stop_tokens()) {
    if (token <= INT32_MAX) request.stop_tokens.push_back(static_cast<int32_t>(token));
  }
  request.ignore_stop_tokens = submit.ignore_eos();
  request.logprobs = static_cast<int>(submit.logprobs()) - 1;
  request.want_logits_hash = submit.want_logits_hash();
  request.prompt_logprobs = static_cast<int>(submit.prompt_logprobs()) - 1;
  request.routed_from = static_cast<int>(submit.routed_experts()) - 1;
  request.client_request_id = submit.client_request_id();
  request.traceparent = submit.traceparent();
  JANUS_RETURN_IF_ERROR(ReadChanges(sampling, request.changes));
  return request;
}

}  // namespace janus::dataplane
