#include "common/model/mixtral.h"

#include "common/model/family.h"

namespace janus {

ModelDescription ReadMixtralConfig(ConfigReader& config) {
  RefuseUnsupported(config);
  ModelDescription model;
  model.dtype = ReadDtype(config);
  model.vocab = static_cast<int>(config.Integer("vocab_size", 1, kMaxVocab));
  model.hidden = static_cast<int>(config.Integer("hidden_size", 1, kMaxHidden));
  model.layers = static_cast<int>(config.Integer("num_hidden_layers", 1, kMaxLayers));
  model.max_positions = config.Integer("max_position_embeddings", 1, kMaxPositions);
  model.norm_epsilon = static_cast<float>(config.NumberOr("rms_norm_eps", 1e-5, 0.0, 1.0));
  model.tied_embeddings = config.BoolOr("tie_word_embeddings", false);
  model.attention = ReadGroupedQueryAttention(config, model.hidden, 8, 1e6);

  model.moe.experts = static_cast<int>(config.IntegerOr("num_local_experts", 8, 1, kMaxExperts));
  model.moe.top_k = static_cast<int>(config.IntegerOr("num_experts_per_tok", 2, 1, kMaxTopK));
  if (model.moe.top_k > model.moe.experts) {
    config.Fail("num_experts_per_tok",
                "is " + std::to_string(model.moe.top_k) +
                    ", more than num_local_experts = " + std::to_string(model.moe.experts));
  }
  model.moe.intermediate =
      static_cast<int>(config.Integer("intermediate_size", 1, kMaxIntermediate));
  model.moe.score = GateScore::kSoftmax;
  model.moe.renormalize = true;
  return model;
}

}  // namespace janus
