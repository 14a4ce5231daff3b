#include "dataplane/engine/logit_changes.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

constexpr float kNever = -INFINITY;

float* At(std::span<float> logits, int32_t token) {
  const auto id = static_cast<size_t>(token);
  return token >= 0 && id < logits.size() ? &logits[id] : nullptr;
}

}  // namespace

LogitChanges::LogitChanges(const Request& request) : request_(request) {
  if (request.changes.repetition_penalty != 1.0f) {
    seen_.insert(request.prompt.begin(), request.prompt.end());
  }
}

void LogitChanges::Note(int32_t token) {
  ++generated_;
  ++counts_[token];
  if (request_.changes.repetition_penalty != 1.0f) seen_.insert(token);
}

void LogitChanges::Apply(std::span<float> logits) const {
  for (const auto& [token, bias] : request_.changes.bias) {
    if (float* const logit = At(logits, token)) *logit += bias;
  }
  if (generated_ < request_.changes.min_tokens) {
    for (const int32_t token : request_.stop_tokens) {
      if (float* const logit = At(logits, token)) *logit = kNever;
    }
  }
  ApplyPenalties(logits);
  ApplyMinP(logits);
}

// Handles each token separately, so the order of the tables does not matter.
void LogitChanges::ApplyPenalties(std::span<float> logits) const {
  const SamplingChanges& changes = request_.changes;
  for (const int32_t token : seen_) {
    float* const logit = At(logits, token);
    if (logit == nullptr) continue;
    *logit =
        *logit > 0.0f ? *logit / changes.repetition_penalty : *logit * changes.repetition_penalty;
  }
  if (changes.frequency_penalty == 0.0f && changes.presence_penalty == 0.0f) return;
  for (const auto& [token, count] : counts_) {
    float* const logit = At(logits, token);
    if (logit == nullptr) continue;
    *logit -= changes.frequency_penalty * static_cast<float>(count);
    *logit -= changes.presence_penalty;
  }
}

// p < min_p * p_max, with probabilities at the request's temperature, is a bound on the logits.
void LogitChanges::ApplyMinP(std::span<float> logits) const {
  const float min_p = request_.changes.min_p;
  if (min_p <= 0.0f || request_.temperature < kernels::kMinTemperature) return;
  const double largest = *std::ranges::max_element(logits);
  const double bound = largest + double{request_.temperature} * std::log(double{min_p});
  for (float& logit : logits) {
    if (logit < bound) logit = kNever;
  }
}

}  // namespace janus::dataplane
