#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// Draws and scores on the host, from logits that lie there: what a request changes of its logits,
// and log probabilities of tokens that were not drawn. On a host's team it uses the place's own
// stream; beside a GPU one thread with AVX2, which every host has, so that a replay on another
// machine has the same bits. Confined to the step thread.
class HostSampler {
 public:
  HostSampler(const kernels::Place& place, int64_t vocab);

  // What `params` draw from the row [V].
  Result<kernels::SampledToken> Draw(std::span<const float> logits,
                                     const kernels::SamplingParams& params);
  // Of rows [n, V] the log probability of one token each, and of the `top` likeliest. A row that
  // holds a NaN has token -1.
  Result<std::span<const kernels::SampledToken>> Score(std::span<const float> logits,
                                                       std::span<const int32_t> tokens,
                                                       std::span<const int> top);

 private:
  Result<std::span<const kernels::SampledToken>> Run(std::span<const float> logits,
                                                     const int32_t* given);

  std::unique_ptr<kernels::Team> own_team_;
  kernels::Stream stream_;
  const int64_t vocab_;
  kernels::Buffer workspace_;
  std::vector<kernels::SamplingParams> params_;
  std::vector<kernels::SampledToken> drawn_;
};

}  // namespace janus::dataplane
