#pragma once

#include <vector>

#include "dataplane/weights/tensor.h"

namespace janus::dataplane {

// An attention instance's weights of one layer: everything but routed experts. Tensors that the
// model does not have stay null, as do the gate's on a device (LoadAttention).
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
  Tensor q_bias;  // [Q], if the model has biases
  Tensor k_bias;  // [KV]
  Tensor v_bias;  // [KV]
  Tensor o_bias;  // [H], with has_output_bias
  Tensor sinks;   // [heads] Float32, with has_sinks
  Tensor q_norm;  // [D] for QueryKeyNorm::kEachHead, [Q] for kAllHeads, else null
  Tensor k_norm;  // [D], [KV]

  // Latent attention.
  Tensor q_a;        // [Rq,H], with a latent query
  Tensor q_a_norm;   // [Rq]
  Tensor kv_a;       // [R+P,H]
  Tensor kv_a_norm;  // [R]
  Tensor kv_b;       // [heads,D-P+V,R]

  FfnTensors ffn;      // a dense layer's, or the shared experts together
  Tensor shared_gate;  // [1,H], if the shared experts have a gate

  Tensor moe_gate;       // [E,H], of a MoE layer
  Tensor moe_gate_bias;  // [E] Float32; null without has_gate_bias()
};

struct AttentionWeights {
  Tensor embedding;   // [V,H]
  Tensor final_norm;  // [H]
  Tensor lm_head;     // [V,H]; the embedding if the model ties them
  std::vector<AttentionLayerWeights> layers;
};

}  // namespace janus::dataplane
