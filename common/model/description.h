#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/dtype.h"

namespace janus {

// YaRN (Peng et al. 2023): pairs that turn often within `original_positions` keep their frequency.
// Pairs that turn seldom get theirs divided by `factor`, with a ramp between.
struct YarnDescription {
  double factor = 1.0;
  double original_positions = 0.0;  // the length of the model's first training
  double beta_fast = 32.0;          // turns within it from which a pair keeps its frequency
  double beta_slow = 1.0;           // turns below which it is divided
  bool truncate = true;             // the ramp begins and ends at whole pairs
};

// Llama 3.1's long contexts (Grattafiori et al. 2024, as published): by its number of turns within
// `original_positions`, a pair keeps its frequency (at least `high_turns`), gets it divided by
// `factor` (at most `low_turns`), or a mixture of both.
struct Llama3RopeDescription {
  double factor = 1.0;
  double original_positions = 0.0;
  double low_turns = 1.0;   // "low_freq_factor"
  double high_turns = 4.0;  // "high_freq_factor"
};

// Which two elements of a head rotate together.
enum class RopePairing : uint8_t {
  kHalves,       // (i, i + rotary_dim/2)
  kInterleaved,  // (2i, 2i + 1)
};

// Rotary position embedding: pair i of a head turns by position * theta^(-2i/rotary_dim), or by a
// modification of that.
struct RopeDescription {
  double theta = 10000.0;
  int rotary_dim = 0;  // <= head_dim; 0 only for a model without rotary embedding
  RopePairing pairing = RopePairing::kHalves;
  float attention_factor = 1.0f;  // multiplies cos and sin; 1 for plain rope
  // At most one of them.
  std::optional<YarnDescription> yarn;
  std::optional<Llama3RopeDescription> llama3;
};

// Multi-head latent attention (DeepSeek-V2, 2024): keys and values of all heads are projections of
// one normed latent vector per position. The cache holds that vector and one key of rope.rotary_dim
// elements, which all heads share.
struct LatentDescription {
  int rank = 0;                // of the latent vector, "kv_lora_rank"
  int value_dim = 0;           // elements of a head's value
  int query_rank = 0;          // of the queries' latent vector; 0: projected directly
  float norm_epsilon = 1e-6f;  // in the norms of both latent vectors
};

// What is RMS-normed of queries and of keys: between their projections and rope with weights of
// their own, unless said otherwise.
enum class QueryKeyNorm : uint8_t {
  kNone,
  kEachHead,     // each head by itself, all with the same weights
  kAllHeads,     // all heads of a row together
  kTurnedHeads,  // each head by itself, behind rope, in layers with rope only, without weights
};
constexpr bool HasNormWeights(QueryKeyNorm norm) {
  return norm == QueryKeyNorm::kEachHead || norm == QueryKeyNorm::kAllHeads;
}

// In layers without rope, queries at position p are multiplied by
// 1 + scale * ln(1 + floor((p + 1) / floor)) (Nakanishi 2025, as Llama-4 has it).
struct TemperatureDescription {
  double scale = 0.0;  // "attn_scale"
  int floor = 1;       // positions, "floor_scale"
  // The number of different factors within so many positions.
  int64_t Steps(int64_t positions) const { return positions / floor + 1; }
};

// Grouped-query or latent attention. A head of query and key has head_dim elements. With `latent`,
// head_dim - rope.rotary_dim of them are projected from the latent vector, and the last
// rope.rotary_dim turn.
struct AttentionDescription {
  int heads = 0;
  int kv_heads = 0;  // divides heads; with `latent` equal to heads
  int head_dim = 0;
  float scale = 0.0f;      // multiplies q.k, usually head_dim^-0.5
  int sliding_window = 0;  // keys that a row sees, including itself; 0: all before it
  // A row sees the keys before it in its own chunk of so many positions, of which the first begins
  // at 0; 0: all. Not with a sliding window.
  int chunk = 0;
  // Layers in which a row sees all keys before it in spite of window and chunk, ascending.
  std::vector<int> full_layers;
  std::vector<int> no_rope_layers;  // layers without rope, ascending
  std::optional<TemperatureDescription> temperature;
  QueryKeyNorm norm = QueryKeyNorm::kNone;
  bool has_bias = false;  // on the projections of queries, keys and values
  bool has_output_bias = false;
  bool has_sinks = false;  // each head has a learned score that takes part in its softmax only
  float clip = 0.0f;       // queries (normed), keys and values are clipped to -clip..clip; 0: not
  RopeDescription rope;
  std::optional<LatentDescription> latent;

  int nope_dim() const { return head_dim - rope.rotary_dim; }  // with `latent`
  bool IsFull(int layer) const {
    return std::binary_search(full_layers.begin(), full_layers.end(), layer);
  }
  bool HasRope(int layer) const {
    return !std::binary_search(no_rope_layers.begin(), no_rope_layers.end(), layer);
  }
  // The sliding window, and the chunk, of a layer.
  int WindowOf(int layer) const { return IsFull(layer) ? 0 : sliding_window; }
  int ChunkOf(int layer) const { return IsFull(layer) ? 0 : chunk; }
};

// How gate logits become top-k weights.
enum class GateScore : uint8_t {
  kSoftmax,  // over all experts; the largest are chosen
  // For each expert separately. The largest sums with a per-expert bias are chosen; the weights
  // exclude the bias (DeepSeek-V3, 2024, 2.1.2).
  kSigmoid,
  kSigmoidOfChosen,  // the largest logits are chosen, and each one's sigmoid is its weight
                     // (Llama-4)
};

struct MoeDescription {
  int experts = 0;       // E routed experts per layer
  int top_k = 0;         // K per token
  int intermediate = 0;  // I of one expert
  GateScore score = GateScore::kSoftmax;
  bool has_logit_bias = false;  // of kSoftmax: a bias per expert is a part of its logit
  bool renormalize = false;     // divide the K weights by their sum
  float weight_scale = 1.0f;    // multiplies the K weights in the end, "routed_scaling_factor"
  int groups = 1;               // number of groups of neighbouring experts, "n_group"
  int top_groups = 1;  // only experts of so many best groups are chosen; a group's score is
                       // that of its best expert (kSoftmax) or two best (kSigmoid)
  int shared_intermediate = 0;  // of the shared experts together, which every token visits; 0: none
  bool has_shared_gate = false;  // their output is multiplied by the sigmoid of one more projection

  // The weight multiplies a routed expert's input, not its output.
  bool weighs_inputs = false;
  bool has_expert_bias = false;  // on all three projections of a routed expert
  // Above 0: with g clipped to at most this limit and u to -limit..limit, routed experts compute
  // (u + 1) * g * sigmoid(swiglu_alpha * g) in place of silu(g) * u (gpt-oss, 2025).
  float swiglu_limit = 0.0f;
  float swiglu_alpha = 0.0f;

  bool has_gate_bias() const { return score == GateScore::kSigmoid || has_logit_bias; }
};

// Names of the tensors with a checkpoint's routed experts in mxfp4 (common/dtype.h), "x" for
// "x.weight".
enum class Mxfp4Layout : uint8_t {
  kNone,               // they are not in mxfp4
  kCompressedTensors,  // "x.weight_packed" and "x.weight_scale"
  kQuark,              // "x.weight" and "x.weight_scale"
  kGptOss,             // "x_blocks" and "x_scales" of all experts of a layer
};

// The content of a family's config.json in the terms of engine and experts; they see neither JSON
// nor tensor names. Made by common/model/config.h, with one small file per family.
struct ModelDescription {
  std::string family;             // "mixtral"
  std::string architecture;       // "MixtralForCausalLM"
  DType dtype = DType::kFloat32;  // of the checkpoint, or the type that the service computes in
  int vocab = 0;
  int hidden = 0;  // H
  int layers = 0;
  // Layers with one dense FFN in place of experts, ascending; they have no exchange. All others are
  // MoE layers, and there is at least one. Placements, rounds and expert instances count only MoE
  // layers, from 0.
  std::vector<int> dense_layers;
  int dense_intermediate = 0;  // of that FFN
  int64_t max_positions = 0;   // longest sequence, prompt and answer together
  float norm_epsilon = 1e-5f;
  bool tied_embeddings = false;
  // Projections in the checkpoint are in Float8E4M3 with a scale for each block of 128 by 128.
  bool has_fp8_weights = false;
  // Only for routed experts; then H and I are multiples of kMxBlock.
  Mxfp4Layout mxfp4 = Mxfp4Layout::kNone;
  AttentionDescription attention;
  MoeDescription moe;

  int moe_layers() const { return layers - static_cast<int>(dense_layers.size()); }
  bool IsDense(int layer) const {
    return std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
  }
};

// The type of routed experts' weights in memory. All other weights are cast to model.dtype when
// loaded. Experts are not cast, because they are nearly all of a model and are read most.
inline DType ExpertType(const ModelDescription& model) {
  if (model.mxfp4 != Mxfp4Layout::kNone) return DType::kMxfp4;
  return model.has_fp8_weights ? DType::kFloat8E4M3 : model.dtype;
}

// The type of rows on the wire and of GEMM inputs: fp32 models keep fp32, 16-bit models use bf16.
inline DType WireType(const ModelDescription& model) {
  return model.dtype == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
}

}  // namespace janus
