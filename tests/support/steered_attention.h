#pragma once

#include <functional>
#include <memory>
#include <span>

#include "dataplane/attention/attention_instance.h"

namespace janus::dataplane {

// What a test controls or observes in an attention instance's steps, on the step thread. Null: as
// in service.
struct AttentionSteering {
  // The logits [V] of every computed position.
  std::function<void(const RequestKey&, int position, std::span<const float>)> logits_tap;
  // The prefill budget of a step, in place of the ticket's.
  std::function<int(uint64_t step)> prefill_override;
  // Whether the newest sequence is preempted before a step although there is room.
  std::function<bool(uint64_t step)> preempt_override;

  bool any() const { return logits_tap || prefill_override || preempt_override; }
};

// An attention instance that a test controls.
class SteeredAttention final : public AttentionInstance {
 public:
  // As AttentionInstance::Create.
  static Result<std::unique_ptr<AttentionInstance>> Create(const AttentionOptions& options,
                                                           AttentionSteering steering,
                                                           const ModelDescription& model,
                                                           const AttentionWeights& weights,
                                                           TokenSink& sink, const Clock& clock);

 private:
  SteeredAttention(const AttentionOptions& options, AttentionSteering steering,
                   const ModelDescription& model, const AttentionWeights& weights, TokenSink& sink,
                   const Clock& clock, std::unique_ptr<KvPagePool> cache)
      : AttentionInstance(options, model, weights, sink, clock, std::move(cache)),
        steering_(std::move(steering)) {}

  int PrefillRows(uint64_t step, int granted) override {
    return steering_.prefill_override ? steering_.prefill_override(step) : granted;
  }
  bool PreemptsBefore(uint64_t step) override {
    return steering_.preempt_override && steering_.preempt_override(step);
  }
  bool WantsAllLogits() const override { return steering_.logits_tap != nullptr; }
  void OnLogits(const RequestKey& key, int position, std::span<const float> logits) override {
    steering_.logits_tap(key, position, logits);
  }

  const AttentionSteering steering_;
};

}  // namespace janus::dataplane
