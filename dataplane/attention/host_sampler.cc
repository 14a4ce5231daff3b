#include "dataplane/attention/host_sampler.h"

namespace janus::dataplane {

HostSampler::HostSampler(const kernels::Place& place, int64_t vocab, int64_t vocabulary)
    : stream_(place.stream), vocab_(vocab), vocabulary_(vocabulary) {
  if (!place.context->is_host()) {
    own_team_ = std::make_unique<kernels::Team>(1);
    stream_ = {
        .device = kernels::Device::kCpu, .team = own_team_.get(), .isa = kernels::Isa::kAvx2};
  }
  const int threads = stream_.team == nullptr ? 1 : stream_.team->size();
  workspace_ = kernels::HostContext().AllocateOrNote(
      static_cast<size_t>(kernels::SampleWorkspaceBytes(vocab, threads)));
}

Result<kernels::SampledToken> HostSampler::Draw(std::span<const float> logits,
                                                const kernels::SamplingParams& params) {
  params_.assign(1, params);
  JANUS_ASSIGN_OR_RETURN(const std::span<const kernels::SampledToken> drawn, Run(logits, nullptr));
  return drawn[0];
}

Result<std::span<const kernels::SampledToken>> HostSampler::Score(std::span<const float> logits,
                                                                  std::span<const int32_t> tokens,
                                                                  std::span<const int> top) {
  params_.assign(tokens.size(), {});
  for (size_t i = 0; i < tokens.size(); ++i) params_[i].logprobs = top[i];
  return Run(logits, tokens.data());
}

Result<std::span<const kernels::SampledToken>> HostSampler::Run(std::span<const float> logits,
                                                                const int32_t* given) {
  JANUS_RETURN_IF_ERROR(kernels::HostContext().TakeFailure());
  drawn_.assign(params_.size(), {});
  kernels::SampleArgs args;
  args.logits = logits.data();
  args.params = params_.data();
  args.tokens = drawn_.data();
  args.given = given;
  args.rows = static_cast<int64_t>(params_.size());
  args.logits_stride = vocab_;
  args.vocab = vocabulary_;
  args.workspace = workspace_.data();
  args.workspace_bytes = static_cast<int64_t>(workspace_.size());
  const Status sampled = kernels::Sample(stream_, args);
  // Rows with unsound logits get no token; the others do.
  if (sampled.code() != StatusCode::kDataLoss) JANUS_RETURN_IF_ERROR(sampled);
  return std::span<const kernels::SampledToken>(drawn_);
}

}  // namespace janus::dataplane
