#pragma once

#include <vector>

#include "common/dtype.h"

namespace janus::dataplane {

// A tensor where the loader put it (a mapped checkpoint, or memory when it had to be cast); it must
// outlive its users. Row-major as in the checkpoint.
struct Tensor {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
};

// What an attention instance holds of a model: everything but gates and routed experts.
// H hidden, V vocabulary, Q heads * head_dim, KV kv_heads * head_dim.
struct AttentionLayerWeights {
  Tensor input_norm;  // [H]
  Tensor q;           // [Q,H]
  Tensor k;           // [KV,H]
  Tensor v;           // [KV,H]
  Tensor o;           // [H,Q]
  Tensor post_norm;   // [H]
};

struct AttentionWeights {
  Tensor embedding;   // [V,H]
  Tensor final_norm;  // [H]
  Tensor lm_head;     // [V,H]; the embedding where the model ties them
  std::vector<AttentionLayerWeights> layers;
};

}  // namespace janus::dataplane
