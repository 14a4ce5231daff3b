#pragma once

#include <vector>

#include "common/dtype.h"

namespace janus::dataplane {

// A tensor where the loader put it (a mapped checkpoint, or memory when it had to be cast); it must
// outlive its users. Row-major as in the checkpoint.
struct Tensor {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  // Of Float8E4M3 and Mxfp4, which only routed experts are: a matrix [N,K] has [ScaleBlocks(N),
  // ScaleBlocks(K)] scales of float, or [N,K/32] of uint8_t. Else null.
  const void* scales = nullptr;
};

// One SiLU-gated FFN: a routed expert, shared experts together, or a dense layer's. H hidden, I
// intermediate.
struct FfnTensors {
  Tensor gate;  // [I,H]  (w1, gate_proj)
  Tensor up;    // [I,H]  (w3, up_proj)
  Tensor down;  // [H,I]  (w2, down_proj)
};

// What an attention instance holds of one layer: everything but gates and routed experts. Tensors
// that the model's description does not ask for stay null.
// H hidden, D head_dim, Q heads * D, KV kv_heads * D; latent attention: R rank, P rope dimension,
// Rq query rank, V value_dim, O heads * V (else Q).
struct AttentionLayerWeights {
  Tensor input_norm;  // [H]
  Tensor q;           // [Q,H]; [Q,Rq] behind a latent query
  Tensor o;           // [H,O]
  Tensor post_norm;   // [H]

  // Grouped-query attention.
  Tensor k;       // [KV,H]
  Tensor v;       // [KV,H]
  Tensor q_norm;  // [D], where heads are normed
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
  Tensor lm_head;     // [V,H]; the embedding where the model ties them
  std::vector<AttentionLayerWeights> layers;
};

}  // namespace janus::dataplane
