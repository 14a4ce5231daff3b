#include "dataplane/model/tensor_names.h"

namespace janus::dataplane {
namespace {

struct FamilyNames {
  std::string_view family;
  TensorNames names;
};

constexpr FamilyNames kFamilies[] = {
    {"deepseek_v2", {}},
    {"deepseek_v3", {}},
    {"mixtral",
     {.moe_gate = "block_sparse_moe.gate",
      .experts = "block_sparse_moe.experts",
      .gate = "w1",
      .up = "w3",
      .down = "w2"}},
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
