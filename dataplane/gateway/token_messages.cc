#include "dataplane/gateway/token_messages.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "proto/convert.h"

namespace janus::gateway {

namespace {

Status Breach(const std::string& what) {
  return InvalidArgument("the attention instance breaks the protocol: " + what);
}

// Token counts are kept in signed 64 bits and added up.
constexpr uint64_t kMostTokens = uint64_t{1} << 48;

Status ReadTokenCount(std::string_view field, uint64_t value, int64_t* out) {
  if (value > kMostTokens) return Breach(std::string(field) + " is " + std::to_string(value));
  *out = static_cast<int64_t>(value);
  return OkStatus();
}

// The error that an instance reported, with its code.
Status ToStatus(uint32_t code, const std::string& message) {
  return code == 0 ? Internal(message) : FromGrpc(code, message);
}

// Whether another instance, or a later try, may succeed.
bool IsShed(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted ||
         status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

Status ReadLogprobs(const google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& from,
                    std::vector<PositionLogprobs>* to) {
  for (const v1::PositionLogprobs& position : from) {
    PositionLogprobs& logprobs = to->emplace_back();
    logprobs.logprob = position.logprob();
    for (const v1::TokenLogprob& top : position.top()) {
      if (top.token() > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
        return Breach("the id of a token in logprobs is " + std::to_string(top.token()));
      }
      logprobs.top.push_back({static_cast<int32_t>(top.token()), top.logprob()});
    }
  }
  return OkStatus();
}

Status ReadTokens(const v1::RequestTokens& message, TokenEvent* event) {
  for (const uint32_t token : message.tokens()) {
    if (token > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
      return Breach("a token's id is " + std::to_string(token));
    }
    event->tokens.push_back(static_cast<int32_t>(token));
  }
  const auto one_each = [&](std::string_view field, int count) {
    if (count == 0 || count == message.tokens_size()) return OkStatus();
    return Breach(std::to_string(count) + " " + std::string(field) + " for " +
                  std::to_string(message.tokens_size()) + " tokens");
  };
  JANUS_RETURN_IF_ERROR(one_each("logits_hashes", message.logits_hashes_size()));
  JANUS_RETURN_IF_ERROR(one_each("logprobs", message.logprobs_size()));
  event->logits_hashes.assign(message.logits_hashes().begin(), message.logits_hashes().end());
  JANUS_RETURN_IF_ERROR(ReadLogprobs(message.logprobs(), &event->logprobs));
  JANUS_RETURN_IF_ERROR(ReadLogprobs(message.prompt_logprobs(), &event->prompt_logprobs));
  event->prompt_logprobs_from = message.prompt_logprobs_from();
  if (!event->prompt_logprobs.empty() && event->prompt_logprobs_from < 1) {
    return Breach("prompt_logprobs_from is 0, and a prompt's first token has none");
  }
  const std::string& routed = message.routed_experts();
  if (routed.size() % sizeof(uint16_t) != 0) {
    return Breach("routed_experts has " + std::to_string(routed.size()) + " bytes");
  }
  static_assert(std::endian::native == std::endian::little);
  event->routed.resize(routed.size() / sizeof(uint16_t));
  if (!routed.empty()) std::memcpy(event->routed.data(), routed.data(), routed.size());
  event->routed_from = message.routed_experts_from();
  event->cached_prompt_tokens = message.cached_prompt_tokens();
  return OkStatus();
}

Status ReadFinish(const v1::RequestTokens& message, AttentionPool::RequestEvent* out) {
  TokenEvent& event = out->event;
  switch (message.finish_reason()) {
    case v1::FINISH_REASON_NONE:
      return OkStatus();
    case v1::FINISH_REASON_STOP:
      if (event.tokens.empty()) return Breach("a stop without the token that stopped it");
      event.finish = Finish::kStop;
      return OkStatus();
    case v1::FINISH_REASON_COMPLETE:
      event.finish = Finish::kStop;
      event.is_complete = true;
      return OkStatus();
    case v1::FINISH_REASON_LENGTH:
      event.finish = Finish::kLength;
      return OkStatus();
    case v1::FINISH_REASON_CANCELLED:
      out->shed = out->left = true;
      event.error = Unavailable("the attention instance gave the request up");
      return OkStatus();
    case v1::FINISH_REASON_ERROR:
      event.error = ToStatus(message.error_code(), message.error());
      out->shed = IsShed(event.error);
      if (!out->shed) event.finish = Finish::kError;
      return OkStatus();
    default:
      return Breach("finish_reason is " + std::to_string(message.finish_reason()));
  }
}

AttentionPool::RequestEvent ReadRejected(const v1::Rejected& rejected) {
  AttentionPool::RequestEvent out{.id = rejected.request_id(), .attempt = rejected.attempt()};
  out.event.error = ToStatus(rejected.code(), rejected.message());
  out.shed = IsShed(out.event.error);
  out.left = out.event.error.code() == StatusCode::kUnavailable;
  if (!out.shed) out.event.finish = Finish::kError;
  return out;
}

}  // namespace

Result<AttentionCapacity> ReadWelcome(const v1::FromAttention& message) {
  if (!message.has_welcome()) return Breach("its first message is no welcome");
  const v1::Welcome& welcome = message.welcome();
  AttentionCapacity out{.instance = welcome.instance(),
                        .vocabulary_size = welcome.vocabulary_size(),
                        .max_context_tokens = welcome.max_context_tokens(),
                        .max_requests = welcome.max_requests(),
                        .accepts_replay = welcome.accepts_replay(),
                        .accepts_counts = welcome.accepts_counts(),
                        .accepts_grammar = welcome.accepts_grammar(),
                        .model_digest = welcome.model_digest(),
                        .text_digest = welcome.text_digest(),
                        .holding = welcome.holding()};
  constexpr size_t kMostDigestBytes = 256;
  for (const std::string* digest : {&out.model_digest, &out.text_digest}) {
    if (digest->size() > kMostDigestBytes) {
      return Breach("a digest has " + std::to_string(digest->size()) + " bytes");
    }
  }
  constexpr uint32_t kMostOfAModel = 1 << 16;
  if (welcome.routed_layers() > kMostOfAModel || welcome.routed_top_k() > kMostOfAModel) {
    return Breach("experts of " + std::to_string(welcome.routed_layers()) + " layers, " +
                  std::to_string(welcome.routed_top_k()) + " in each");
  }
  out.routed_width = int64_t{welcome.routed_layers()} * int64_t{welcome.routed_top_k()};
  if (out.vocabulary_size == 0) return Breach("vocabulary_size is 0");
  if (out.max_context_tokens == 0) return Breach("max_context_tokens is 0");
  JANUS_RETURN_IF_ERROR(
      ReadTokenCount("kv_capacity_tokens", welcome.kv_capacity_tokens(), &out.kv_capacity_tokens));
  JANUS_RETURN_IF_ERROR(
      ReadTokenCount("kv_tokens_in_use", welcome.kv_tokens_in_use(), &out.kv_tokens_in_use));
  return out;
}

Result<AttentionEvents> ReadEvents(const v1::FromAttention& message,
                                   const std::shared_ptr<const void>& credit) {
  AttentionEvents out;
  if (message.has_rejected()) {
    out.requests.push_back(ReadRejected(message.rejected()));
    return out;
  }
  if (!message.has_step()) return Breach("a message that is neither a step nor a refusal");
  const v1::Step& step = message.step();
  for (const v1::RequestTokens& tokens : step.requests()) {
    AttentionPool::RequestEvent& event = out.requests.emplace_back();
    event.id = tokens.request_id();
    event.attempt = tokens.attempt();
    event.event.credit = credit;
    JANUS_RETURN_IF_ERROR(ReadTokens(tokens, &event.event));
    JANUS_RETURN_IF_ERROR(ReadFinish(tokens, &event));
  }
  out.load = AttentionLoad{.queued = step.queued(),
                           .running = step.running(),
                           .timed_waits = step.timed_waits(),
                           .timed_overruns = step.timed_overruns(),
                           .holding = step.holding()};
  JANUS_RETURN_IF_ERROR(
      ReadTokenCount("kv_tokens_in_use", step.kv_tokens_in_use(), &out.load->kv_tokens_in_use));
  JANUS_RETURN_IF_ERROR(ReadTokenCount("keys", step.keys(), &out.load->keys));
  if (out.load->keys == 0) out.load->keys = out.load->kv_tokens_in_use;
  return out;
}

v1::ToAttention SubmitMessage(uint64_t id, uint32_t attempt, const GenerationRequest& request,
                              std::span<const int32_t> generated) {
  v1::ToAttention message;
  v1::Submit& submit = *message.mutable_submit();
  submit.set_request_id(id);
  submit.set_attempt(attempt);
  submit.mutable_prompt_tokens()->Assign(request.prompt.begin(), request.prompt.end());
  submit.set_max_tokens(static_cast<uint32_t>(std::min<int64_t>(request.max_tokens, UINT32_MAX)));
  v1::Sampling& sampling = *submit.mutable_sampling();
  sampling.set_temperature(static_cast<float>(request.temperature));
  sampling.set_top_k(static_cast<uint32_t>(request.top_k));
  sampling.set_top_p(static_cast<float>(request.top_p));
  sampling.set_seed(request.seed);
  for (const auto& [token, bias] : request.logit_bias) {
    v1::TokenBias& to = *sampling.add_logit_bias();
    to.set_token(static_cast<uint32_t>(token));
    to.set_bias(bias);
  }
  sampling.set_min_tokens(static_cast<uint32_t>(std::min<int64_t>(request.min_tokens, INT32_MAX)));
  sampling.set_repetition_penalty(static_cast<float>(request.repetition_penalty));
  sampling.set_frequency_penalty(static_cast<float>(request.frequency_penalty));
  sampling.set_presence_penalty(static_cast<float>(request.presence_penalty));
  sampling.set_min_p(static_cast<float>(request.min_p));
  submit.mutable_stop_tokens()->Assign(request.stop_tokens.begin(), request.stop_tokens.end());
  submit.set_ignore_eos(request.ignore_eos);
  submit.set_logprobs(static_cast<uint32_t>(request.logprobs + 1));
  submit.set_want_logits_hash(request.want_logits_hash);
  // All of them come before the first token.
  if (generated.empty()) {
    submit.set_prompt_logprobs(static_cast<uint32_t>(request.prompt_logprobs + 1));
  }
  if (request.routed_from >= 0) {
    // With a token came the experts of all positions before it.
    const size_t next = generated.empty() ? 0 : request.prompt.size() + generated.size() - 1;
    const int64_t from = std::max(request.routed_from, static_cast<int64_t>(next));
    submit.set_routed_experts(static_cast<uint32_t>(from) + 1);
  }
  submit.set_client_request_id(request.client_request_id);
  submit.set_traceparent(request.traceparent);
  if (request.grammar) submit.set_grammar(*request.grammar);
  submit.mutable_generated_tokens()->Assign(generated.begin(), generated.end());
  return message;
}

v1::ToAttention CountsMessage(const GatewayCounts& counts) {
  v1::ToAttention message;
  *message.mutable_counts() = ToProto(counts);
  return message;
}

}  // namespace janus::gateway
