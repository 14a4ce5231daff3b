#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// Draws and scores on the host, from logits in host memory. Used for requests that change their
// logits, and for log probabilities of tokens that were not drawn. On a host context it uses the
// place's own stream. Beside a GPU it uses one thread with AVX2, which every host has, so that a
// replay on another machine gives the same bits. Confined to the step thread.
class HostSampler {
 public:
  // Rows of logits have `vocab` elements, of which the first `vocabulary` have tokens.
  HostSampler(const kernels::Place& place, int64_t vocab, int64_t vocabulary);

  // Draws from the row [V] with `params`.
  Result<kernels::SampledToken> Draw(std::span<const float> logits,
                                     const kernels::SamplingParams& params);
  // For each row of [n, V]: the log probability of one given token, and of the `top` likeliest. A
  // row with a NaN has token -1.
  Result<std::span<const kernels::SampledToken>> Score(std::span<const float> logits,
                                                       std::span<const int32_t> tokens,
                                                       std::span<const int> top);

 private:
  Result<std::span<const kernels::SampledToken>> Run(std::span<const float> logits,
                                                     const int32_t* given);

  std::unique_ptr<kernels::Team> own_team_;
  kernels::Stream stream_;
  const int64_t vocab_;
  const int64_t vocabulary_;
  kernels::Buffer workspace_;
  std::vector<kernels::SamplingParams> params_;
  std::vector<kernels::SampledToken> drawn_;
};

}  // namespace janus::dataplane
