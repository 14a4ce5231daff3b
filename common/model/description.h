#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/dtype.h"

namespace janus {

// Rotary position embedding in the rotate-half convention: pair (i, i + rotary_dim/2) of a head
// turns by position * theta^(-2i/rotary_dim).
struct RopeDescription {
  double theta = 10000.0;
  int rotary_dim = 0;             // <= head_dim; 0 only for a model without rotary embedding
  float attention_factor = 1.0f;  // multiplies cos and sin; 1 for plain rope
};

// Grouped-query attention. heads is a multiple of kv_heads.
struct AttentionDescription {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  float scale = 0.0f;      // multiplies q.k, usually head_dim^-0.5
  int sliding_window = 0;  // keys a row sees, itself included; 0 = all before it
  RopeDescription rope;
};

// How router logits become top-k weights.
enum class GateScore : uint8_t { kSoftmax };

struct MoeDescription {
  int experts = 0;       // E routed experts per layer
  int top_k = 0;         // K per token
  int intermediate = 0;  // I of one expert
  GateScore score = GateScore::kSoftmax;
  bool renormalize = false;  // divide the K weights by their sum
};

// What a family's config.json says, in the terms that engine and experts need; nothing of JSON and
// no tensor name reaches them. Made by common/model/config.h, one small file per family.
struct ModelDescription {
  std::string family;             // "mixtral"
  std::string architecture;       // "MixtralForCausalLM"
  DType dtype = DType::kFloat32;  // of the checkpoint, or what the service asks to compute in
  int vocab = 0;
  int hidden = 0;  // H
  int layers = 0;
  int64_t max_positions = 0;  // longest sequence, prompt and answer together
  float norm_epsilon = 1e-5f;
  bool tied_embeddings = false;
  AttentionDescription attention;
  MoeDescription moe;
};

// The type of rows on the wire and of GEMM inputs: fp32 models keep fp32, 16-bit models use bf16.
inline DType WireType(const ModelDescription& model) {
  return model.dtype == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
}

}  // namespace janus
