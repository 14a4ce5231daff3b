#include "controllers/plan/shape_of.h"

#include "common/dtype.h"

namespace janus::controllers {

ModelShape ShapeOf(const ModelDescription& description) {
  ModelShape shape;
  shape.name = description.family;
  shape.layers = description.moe_layers();
  shape.dense_layers = static_cast<int>(description.dense_layers.size());
  shape.dense_intermediate = description.dense_intermediate;
  shape.hidden = description.hidden;
  const AttentionDescription& attention = description.attention;
  shape.heads = attention.heads;
  if (attention.latent) {
    const LatentDescription& latent = *attention.latent;
    const double rotary = attention.rope.rotary_dim;
    // Queries from their own latent where there is one; keys' and values' expansion; the output.
    const double query_input = latent.query_rank > 0 ? latent.query_rank : shape.hidden;
    shape.head_dim = latent.rank + rotary;
    shape.head_weights = query_input * attention.head_dim +
                         latent.rank * (attention.nope_dim() + latent.value_dim) +
                         latent.value_dim * shape.hidden;
    shape.shared_weights = shape.hidden * (latent.query_rank + latent.rank + rotary);
  } else {
    shape.kv_heads = attention.kv_heads;
    shape.head_dim = attention.head_dim;
  }
  shape.experts = description.moe.experts;
  shape.top_k = description.moe.top_k;
  shape.intermediate = description.moe.intermediate;
  shape.shared_intermediate = description.moe.shared_intermediate;
  shape.vocab = description.vocab;
  // Scales are 1 in 4,096 bytes of fp8, and left out; of mxfp4 they are 1 in 17.
  const DType type = ExpertType(description);
  shape.bytes_per_weight = static_cast<double>(BitsOf(type)) / 8.0 +
                           (type == DType::kMxfp4 ? 1.0 / static_cast<double>(kMxBlock) : 0.0);
  shape.bytes_per_dense_weight = static_cast<double>(SizeOf(description.dtype));
  shape.bytes_per_kv_value = shape.bytes_per_dense_weight;
  return shape;
}

}  // namespace janus::controllers
