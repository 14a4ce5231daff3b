#pragma once

#include <vector>

#include "dataplane/weights/tensor.h"

namespace janus::dataplane {

// An attention instance's weights of one layer: everything but gates and routed experts. Tensors
// that the model does not have stay null.
// H hidden, D head_dim, Q heads * D, KV kv_heads * D; latent attention: R rank, P rope dimension,
// Rq query rank, V value_dim, O heads * V (otherwise Q).
struct AttentionLayerWeights {
  Tensor input_norm;  // [H]
  Tensor q;           // [Q,H]; [Q,Rq] behind a latent query
  Tensor o;           // [H,O]
  Tensor post_norm;   // [H]

  // Grouped-query attention.
  Tensor k;       // [KV,H]
  Tensor v;       // [KV,H]
  Tensor q_norm;  // [D], if the model norms its heads
  Tensor k_norm;  // [D]

  // Latent attention.
  Tensor q_a;        // [Rq,H], with a latent query
  Tensor q_a_norm;   // [Rq]
  Tensor kv_a;       // [R+P,H]
  Tensor kv_a_norm;  // [R]
  Tensor kv_b;       // [heads,D-P+V,R]

  FfnTensors ffn;  // a dense layer's, or the shared experts together
};

struct AttentionWeights {
  Tensor embedding;   // [V,H]
  Tensor final_norm;  // [H]
  Tensor lm_head;     // [V,H]; the embedding if the model ties them
  std::vector<AttentionLayerWeights> layers;
};

}  // namespace janus::dataplane
