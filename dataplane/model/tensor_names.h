#pragma once

#include <cstdint>
#include <string_view>

namespace janus::dataplane {

// How the experts of a layer lie in a checkpoint. Where they lie together, they are the tensors
// gate_up_proj and down_proj (load_weights.cc).
enum class ExpertTensors : uint8_t {
  kOwn,          // each has its own; or together, gates before ups, with their outputs first
  kInTurns,      // together: gates and ups in turns
  kInputsFirst,  // together: gates before ups, with their inputs first
};

// The names of a family's tensors in a checkpoint, without ".weight" unless marked "in full". The
// defaults are those of most families; tensor_names.cc has the differences.
struct TensorNames {
  // Before all other names, in checkpoints that have it; with its dot.
  std::string_view optional_prefix = "";
  std::string_view embedding = "model.embed_tokens";
  std::string_view final_norm = "model.norm";
  std::string_view lm_head = "lm_head";
  std::string_view layers = "model.layers";  // followed by the layer's number

  // Within a layer.
  std::string_view input_norm = "input_layernorm";
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view output = "self_attn.o_proj";
  std::string_view sinks = "self_attn.sinks";  // in full
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
  std::string_view post_norm = "post_attention_layernorm";

  // Latent attention.
  std::string_view query_down = "self_attn.q_a_proj";
  std::string_view query_down_norm = "self_attn.q_a_layernorm";
  std::string_view query_up = "self_attn.q_b_proj";
  std::string_view latent = "self_attn.kv_a_proj_with_mqa";
  std::string_view latent_norm = "self_attn.kv_a_layernorm";
  std::string_view latent_up = "self_attn.kv_b_proj";

  // FFNs: a dense layer's, the shared experts', and the experts', followed by their number.
  std::string_view moe_gate = "mlp.gate";
  std::string_view moe_gate_bias = "mlp.gate.e_score_correction_bias";  // in full
  std::string_view dense = "mlp";
  std::string_view shared = "mlp.shared_experts";
  std::string_view shared_gate = "mlp.shared_expert_gate";
  std::string_view experts = "mlp.experts";
  // Within one of them.
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
  ExpertTensors expert_tensors = ExpertTensors::kOwn;
};

// The names of ModelDescription::family; null if it is unknown.
const TensorNames* FindTensorNames(std::string_view family);

}  // namespace janus::dataplane
