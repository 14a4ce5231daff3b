#include "tests/support/steered_attention.h"

#include <utility>

namespace janus::dataplane {

Result<std::unique_ptr<AttentionInstance>> SteeredAttention::Create(
    const AttentionOptions& options, AttentionSteering steering, const ModelDescription& model,
    const AttentionWeights& weights, TokenSink& sink, const Clock& clock) {
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<KvPagePool> pages, CreatePages(options, model));
  return std::unique_ptr<AttentionInstance>(new SteeredAttention(
      options, std::move(steering), model, weights, sink, clock, std::move(pages)));
}

}  // namespace janus::dataplane
