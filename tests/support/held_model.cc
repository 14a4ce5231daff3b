#include "tests/support/held_model.h"

#include <cmath>
#include <deque>

#include "common/aligned_buffer.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

class Maker {
 public:
  Maker(DType dtype, uint64_t seed) : dtype_(dtype), random_(seed) {}

  // [outputs, inputs], uniform with the variance that keeps a projection's scale, times `gain`.
  Tensor Matrix(int outputs, int inputs, float gain) {
    const float bound = gain * std::sqrt(3.0f / static_cast<float>(inputs));
    return Fill(static_cast<size_t>(outputs) * static_cast<size_t>(inputs), 0.0f, bound);
  }
  Tensor Norm(int size) { return Fill(static_cast<size_t>(size), 1.0f, 0.3f); }

  std::shared_ptr<void> buffers() const { return buffers_; }

 private:
  Tensor Fill(size_t count, float mean, float spread) {
    AlignedBuffer& buffer = buffers_->emplace_back(count * static_cast<size_t>(SizeOf(dtype_)));
    for (size_t i = 0; i < count; ++i) {
      const float value = mean + spread * random_.Signed();
      if (dtype_ == DType::kFloat32) {
        reinterpret_cast<float*>(buffer.data())[i] = value;
      } else {
        reinterpret_cast<uint16_t*>(buffer.data())[i] = ToBFloat16(value);
      }
    }
    return {buffer.data(), dtype_};
  }

  const DType dtype_;
  Random random_;
  std::shared_ptr<std::deque<AlignedBuffer>> buffers_ =
      std::make_shared<std::deque<AlignedBuffer>>();
};

}  // namespace

std::vector<ExpertWeights> HeldModel::Shares(const Placement& placement) const {
  std::vector<ExpertWeights> shares(placement.slots_of_instance.size());
  for (size_t g = 0; g < shares.size(); ++g) {
    const int first = placement.first_slot(Rank{static_cast<int32_t>(g)});
    shares[g].layers.resize(experts.layers.size());
    for (size_t l = 0; l < experts.layers.size(); ++l) {
      shares[g].layers[l].router = experts.layers[l].router;
      for (int s = 0; s < placement.slots_of_instance[g]; ++s) {
        const uint16_t expert = placement.at(static_cast<int>(l), first + s);
        shares[g].layers[l].slots.push_back(expert == Placement::kEmpty
                                                ? std::optional<ExpertTensors>()
                                                : experts.layers[l].slots[expert]);
      }
    }
  }
  return shares;
}

std::vector<const ExpertWeights*> PointersTo(const std::vector<ExpertWeights>& shares) {
  std::vector<const ExpertWeights*> pointers;
  for (const ExpertWeights& share : shares) pointers.push_back(&share);
  return pointers;
}

ModelDescription SmallModelDescription(DType dtype) {
  ModelDescription model;
  model.family = "mixtral";
  model.architecture = "MixtralForCausalLM";
  model.dtype = dtype;
  model.vocab = 83;
  model.hidden = 40;
  model.layers = 2;
  model.max_positions = 256;
  model.norm_epsilon = 1e-5f;
  model.attention.heads = 6;
  model.attention.kv_heads = 2;
  model.attention.head_dim = 12;
  model.attention.scale = 1.0f / std::sqrt(12.0f);
  model.attention.rope.theta = 1000.0;
  model.attention.rope.rotary_dim = 12;
  model.moe.experts = 7;
  model.moe.top_k = 3;
  model.moe.intermediate = 20;
  model.moe.renormalize = true;
  return model;
}

HeldModel RandomModel(const ModelDescription& model, uint64_t seed) {
  HeldModel held;
  held.model = model;
  const int h = model.hidden;
  const int q = model.attention.heads * model.attention.head_dim;
  const int kv = model.attention.kv_heads * model.attention.head_dim;
  Maker make(model.dtype, seed);
  held.attention.embedding = make.Matrix(model.vocab, h, 6.0f);
  held.attention.final_norm = make.Norm(h);
  held.attention.lm_head = make.Matrix(model.vocab, h, 3.0f);
  for (int l = 0; l < model.layers; ++l) {
    AttentionLayerWeights& a = held.attention.layers.emplace_back();
    a.input_norm = make.Norm(h);
    a.q = make.Matrix(q, h, 2.0f);
    a.k = make.Matrix(kv, h, 2.0f);
    a.v = make.Matrix(kv, h, 1.5f);
    a.o = make.Matrix(h, q, 1.5f);
    a.post_norm = make.Norm(h);
    ExpertLayerWeights& e = held.experts.layers.emplace_back();
    e.router = make.Matrix(model.moe.experts, h, 1.5f);
    for (int i = 0; i < model.moe.experts; ++i) {
      e.slots.push_back(ExpertTensors{make.Matrix(model.moe.intermediate, h, 1.5f),
                                      make.Matrix(model.moe.intermediate, h, 1.5f),
                                      make.Matrix(h, model.moe.intermediate, 1.5f)});
    }
  }
  held.keep = make.buffers();
  return held;
}

HeldModel SmallRandomModel(DType dtype, uint64_t seed) {
  return RandomModel(SmallModelDescription(dtype), seed);
}

}  // namespace janus::dataplane
