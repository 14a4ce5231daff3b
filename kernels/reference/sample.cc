#include <algorithm>
#include <cmath>
#include <span>

#include "common/philox.h"
#include "kernels/backends.h"

namespace janus::kernels {
namespace {

// Whether the logits can be sampled from: no NaN, no +infinity, something finite.
bool IsSound(std::span<const float> logits) {
  bool any = false;
  for (const float x : logits) {
    if (std::isnan(x) || x == INFINITY) return false;
    any |= std::isfinite(x);
  }
  return any;
}

int32_t Draw(std::span<const float> logits, std::span<const int32_t> order,
             const SamplingParams& params, std::span<double> p) {
  if (params.temperature < kMinTemperature) return order[0];
  const auto vocab = static_cast<int64_t>(logits.size());
  const double largest = logits[static_cast<size_t>(order[0])];
  int64_t kept = params.top_k == 0 ? vocab : std::min<int64_t>(params.top_k, vocab);
  double total = 0.0;
  for (int64_t i = 0; i < kept; ++i) {
    const auto id = static_cast<size_t>(order[static_cast<size_t>(i)]);
    p[id] = std::exp((logits[id] - largest) / params.temperature);
    total += p[id];
  }
  if (params.top_p < 1.0f) {
    double reached = 0.0;
    int64_t prefix = 0;
    while (prefix < kept && reached < params.top_p * total) {
      reached += p[static_cast<size_t>(order[static_cast<size_t>(prefix++)])];
    }
    kept = std::max<int64_t>(prefix, 1);
    total = reached;
  }
  for (int64_t i = kept; i < vocab; ++i)
    p[static_cast<size_t>(order[static_cast<size_t>(i)])] = 0.0;
  const double target = UniformAt(params.seed, static_cast<uint64_t>(params.position)) * total;
  double running = 0.0;
  int32_t last = order[0];
  for (int32_t id = 0; id < vocab; ++id) {
    if (p[static_cast<size_t>(id)] == 0.0) continue;
    running += p[static_cast<size_t>(id)];
    last = id;
    if (running > target) break;
  }
  return last;
}

}  // namespace

int64_t SampleReference(const SampleArgs& a) {
  const auto vocab = static_cast<size_t>(a.vocab);
  const int64_t stride = a.logits_stride != 0 ? a.logits_stride : a.vocab;
  const std::span p(static_cast<double*>(a.workspace), vocab);
  const std::span order(reinterpret_cast<int32_t*>(p.data() + vocab), vocab);
  int64_t failed = -1;
  for (int64_t t = 0; t < a.rows; ++t) {
    const std::span logits(a.logits + t * stride, vocab);
    SampledToken& out = a.tokens[t] = SampledToken{};
    if (!IsSound(logits)) {
      if (failed < 0) failed = t;
      continue;
    }
    for (size_t id = 0; id < vocab; ++id) order[id] = static_cast<int32_t>(id);
    std::ranges::sort(order, [&](int32_t x, int32_t y) {
      const float a_logit = logits[static_cast<size_t>(x)];
      const float b_logit = logits[static_cast<size_t>(y)];
      return a_logit != b_logit ? a_logit > b_logit : x < y;
    });
    const bool is_given = a.given != nullptr && a.given[t] >= 0;
    out.token = is_given ? a.given[t] : Draw(logits, order, a.params[t], p);
    if (a.params[t].logprobs < 0) continue;
    const double largest = logits[static_cast<size_t>(order[0])];
    double total = 0.0;
    for (const float x : logits) total += std::exp(x - largest);
    const auto logprob = [&](int32_t id) {
      return static_cast<float>(logits[static_cast<size_t>(id)] - largest - std::log(total));
    };
    out.logprob = logprob(out.token);
    out.num_top = static_cast<int32_t>(std::min<int64_t>(a.params[t].logprobs, a.vocab));
    for (int32_t i = 0; i < out.num_top; ++i) {
      out.top_tokens[i] = order[static_cast<size_t>(i)];
      out.top_logprobs[i] = logprob(out.top_tokens[i]);
    }
  }
  return failed;
}

}  // namespace janus::kernels
