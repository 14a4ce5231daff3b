#include "dataplane/model/family.h"

namespace janus::dataplane {
namespace {

class Mixtral final : public Family {
 public:
  std::string Embedding() const override { return "model.embed_tokens.weight"; }
  std::string FinalNorm() const override { return "model.norm.weight"; }
  std::string LmHead() const override { return "lm_head.weight"; }

  std::string InputNorm(int layer) const override {
    return Layer(layer) + "input_layernorm.weight";
  }
  std::string Query(int layer) const override { return Layer(layer) + "self_attn.q_proj.weight"; }
  std::string Key(int layer) const override { return Layer(layer) + "self_attn.k_proj.weight"; }
  std::string Value(int layer) const override { return Layer(layer) + "self_attn.v_proj.weight"; }
  std::string Output(int layer) const override { return Layer(layer) + "self_attn.o_proj.weight"; }
  std::string PostNorm(int layer) const override {
    return Layer(layer) + "post_attention_layernorm.weight";
  }

  std::string Router(int layer) const override {
    return Layer(layer) + "block_sparse_moe.gate.weight";
  }
  std::string ExpertGate(int layer, int expert) const override {
    return Expert(layer, expert) + "w1.weight";
  }
  std::string ExpertUp(int layer, int expert) const override {
    return Expert(layer, expert) + "w3.weight";
  }
  std::string ExpertDown(int layer, int expert) const override {
    return Expert(layer, expert) + "w2.weight";
  }

 private:
  static std::string Layer(int layer) { return "model.layers." + std::to_string(layer) + "."; }
  static std::string Expert(int layer, int expert) {
    return Layer(layer) + "block_sparse_moe.experts." + std::to_string(expert) + ".";
  }
};

}  // namespace

const Family& MixtralFamily() {
  static const Mixtral family;
  return family;
}

}  // namespace janus::dataplane
