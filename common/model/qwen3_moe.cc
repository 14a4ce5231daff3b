#include "common/model/qwen3_moe.h"

#include <algorithm>

#include "common/model/family.h"

namespace janus {

ModelDescription ReadQwen3MoeConfig(ConfigReader& config) {
  ModelDescription model = ReadSizes(config, 1e-6);
  model.attention = ReadGroupedQueryAttention(config, model.hidden, 4, 1e4);
  model.attention.head_norm = true;
  // Published files have a sliding_window that is switched off.
  model.attention.sliding_window = 0;
  if (config.BoolOr("use_sliding_window", false)) {
    config.Fail("use_sliding_window", "is true; that is not supported for this family");
  }
  ReadExperts(config, config.Has("num_experts") ? "num_experts" : "num_local_experts", 128,
              "num_experts_per_tok", 8, model.moe);
  model.moe.intermediate =
      static_cast<int>(config.IntegerOr("moe_intermediate_size", 768, 1, kMaxIntermediate));
  model.moe.renormalize = config.BoolOr("norm_topk_prob", false);
  const int64_t step = config.IntegerOr("decoder_sparse_step", 1, 1, kMaxLayers);
  const auto dense = config.Integers("mlp_only_layers", 0, model.layers - 1);
  ReadDenseLayers(
      config, dense.empty() ? "decoder_sparse_step" : "mlp_only_layers",
      [&](int layer) {
        return (layer + 1) % step == 0 &&
               std::find(dense.begin(), dense.end(), layer) == dense.end();
      },
      model);
  return model;
}

}  // namespace janus
