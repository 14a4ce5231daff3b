// What sampling on a device does differently: the host sees the logits before it starts.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/kernels.h"
#include "tests/unit/kernels/cuda_order.h"
#include "tests/unit/kernels/guarded_array.h"

namespace janus::kernels {
namespace {

// The tokens of rows of three logits.
std::vector<int32_t> Draw(const std::vector<std::vector<float>>& rows,
                          const std::vector<SamplingParams>& params) {
  NextOrder();
  std::vector<float> logits;
  for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
  GuardedArray workspace(DType::kFloat32, SampleWorkspaceBytes(3, 1) / 4);
  std::vector<SampledToken> tokens(rows.size());
  const Status status = Sample(Stream{.device = Device::kCuda},
                               {.logits = logits.data(),
                                .params = params.data(),
                                .tokens = tokens.data(),
                                .rows = static_cast<int64_t>(rows.size()),
                                .vocab = 3,
                                .workspace = workspace.data(),
                                .workspace_bytes = static_cast<int64_t>(workspace.data_bytes())});
  EXPECT_TRUE(status.ok()) << status.ToString();
  std::vector<int32_t> drawn;
  for (const SampledToken& token : tokens) drawn.push_back(token.token);
  return drawn;
}

TEST(SampleOnCuda, MarksRowsThatItCannotDrawAndDrawsTheOthers) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> good = {0.0f, 5.0f, 1.0f};
  const SamplingParams greedy{.temperature = 0.0f};
  const std::vector<SamplingParams> params(3, greedy);
  for (const std::vector<float>& bad :
       {std::vector<float>{0.0f, 5.0f, std::nanf("")}, {inf, 5.0f, 1.0f}, {-inf, -inf, -inf}}) {
    EXPECT_EQ(Draw({good, bad, good}, params), (std::vector<int32_t>{1, -1, 1}));
  }
}

TEST(SampleOnCuda, MarksRowsOfAbsurdParameters) {
  const std::vector<float> good = {0.0f, 5.0f, 1.0f};
  for (const SamplingParams& absurd :
       {SamplingParams{.temperature = -1.0f}, SamplingParams{.temperature = NAN},
        SamplingParams{.temperature = INFINITY}, SamplingParams{.top_k = -1},
        SamplingParams{.top_p = 0.0f}, SamplingParams{.top_p = NAN}, SamplingParams{.top_p = 1.1f},
        SamplingParams{.position = -1}, SamplingParams{.logprobs = kMaxLogprobs + 1}}) {
    EXPECT_EQ(Draw({good}, {absurd}), std::vector<int32_t>{-1});
  }
}

}  // namespace
}  // namespace janus::kernels
