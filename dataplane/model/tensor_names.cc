#include "dataplane/model/tensor_names.h"

namespace janus::dataplane {
namespace {

struct FamilyNames {
  std::string_view family;
  TensorNames names;
};

// The text model of a whole one has a prefix, alone it may have it.
constexpr TensorNames kLlama4 = {.optional_prefix = "language_model.",
                                 .moe_gate = "feed_forward.router",
                                 .dense = "feed_forward",
                                 .shared = "feed_forward.shared_expert",
                                 .experts = "feed_forward.experts",
                                 .expert_tensors = ExpertTensors::kInputsFirst};

constexpr FamilyNames kFamilies[] = {
    {"deepseek_v2", {}},
    {"deepseek_v3", {}},
    {"glm4_moe", {}},
    {"gpt_oss",
     {.moe_gate = "mlp.router",
      .moe_gate_bias = "mlp.router.bias",
      .expert_tensors = ExpertTensors::kInTurns}},
    {"llama4", kLlama4},
    {"llama4_text", kLlama4},
    {"minimax_m2",
     {.moe_gate = "block_sparse_moe.gate",
      .moe_gate_bias = "block_sparse_moe.e_score_correction_bias",
      .experts = "block_sparse_moe.experts",
      .gate = "w1",
      .up = "w3",
      .down = "w2"}},
    {"mixtral",
     {.moe_gate = "block_sparse_moe.gate",
      .experts = "block_sparse_moe.experts",
      .gate = "w1",
      .up = "w3",
      .down = "w2"}},
    {"olmoe", {}},
    {"qwen2_moe", {.shared = "mlp.shared_expert"}},
    {"qwen3_moe", {}},
};

}  // namespace

const TensorNames* FindTensorNames(std::string_view family) {
  for (const FamilyNames& known : kFamilies) {
    if (known.family == family) return &known.names;
  }
  return nullptr;
}

}  // namespace janus::dataplane
