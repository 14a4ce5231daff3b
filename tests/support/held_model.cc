#include "tests/support/held_model.h"

#include <cmath>
#include <deque>

#include "common/aligned_buffer.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

// In the host's memory.
class Maker final : public TensorMaker {
 public:
  Maker(DType dtype, uint64_t seed) : dtype_(dtype), random_(seed) {}

  Tensor ScaledMatrix(DType type, int outputs, int inputs, float gain) override {
    return type == DType::kMxfp4 ? Mxfp4Matrix(outputs, inputs, gain)
                                 : Fp8Matrix(outputs, inputs, gain);
  }
  Tensor Bias(int size) override {
    auto* const values = reinterpret_cast<float*>(
        buffers_->emplace_back(static_cast<size_t>(size) * sizeof(float)).data());
    for (int i = 0; i < size; ++i) values[i] = 0.4f * random_.Signed();
    return {values, DType::kFloat32, nullptr};
  }

  std::shared_ptr<void> buffers() const { return buffers_; }

 private:
  // With scales that all differ.
  Tensor Fp8Matrix(int outputs, int inputs, float gain) {
    const float bound = Bound(inputs, gain);
    const auto blocks = static_cast<size_t>(ScaleBlocks(inputs));
    const size_t count = static_cast<size_t>(ScaleBlocks(outputs)) * blocks;
    auto* const scales =
        reinterpret_cast<float*>(buffers_->emplace_back(count * sizeof(float)).data());
    for (size_t i = 0; i < count; ++i) scales[i] = bound / 200.0f * (1 + 0.5f * random_.Signed());
    const auto row = static_cast<size_t>(inputs);
    AlignedBuffer& buffer = buffers_->emplace_back(static_cast<size_t>(outputs) * row);
    for (size_t i = 0; i < static_cast<size_t>(outputs) * row; ++i) {
      reinterpret_cast<uint8_t*>(buffer.data())[i] = ToFloat8E4M3(200.0f * random_.Signed());
    }
    return {buffer.data(), DType::kFloat8E4M3, scales};
  }
  // With scales of three neighbouring exponents.
  Tensor Mxfp4Matrix(int outputs, int inputs, float gain) {
    const float bound = Bound(inputs, gain);
    const auto count = static_cast<size_t>(outputs) * static_cast<size_t>(inputs);
    const int middle = 127 + static_cast<int>(std::lround(std::log2(bound / 6.0f)));
    const auto bytes = [&](size_t size, const auto& next) {
      AlignedBuffer& buffer = buffers_->emplace_back(size);
      for (size_t i = 0; i < size; ++i) {
        reinterpret_cast<uint8_t*>(buffer.data())[i] = static_cast<uint8_t>(next());
      }
      return buffer.data();
    };
    const void* const scales = bytes(count / kMxBlock, [&] {
      return middle + static_cast<int>(std::lround(1.4f * random_.Signed()));
    });
    const void* const weights =
        bytes(count / 2, [&] { return static_cast<int>((random_.Signed() + 1.0f) * 127.99f); });
    return {weights, DType::kMxfp4, scales};
  }
  Tensor Fill(size_t count, float mean, float spread) override {
    AlignedBuffer& buffer = buffers_->emplace_back(count * static_cast<size_t>(SizeOf(dtype_)));
    for (size_t i = 0; i < count; ++i) {
      const float value = mean + spread * random_.Signed();
      if (dtype_ == DType::kFloat32) {
        reinterpret_cast<float*>(buffer.data())[i] = value;
      } else {
        reinterpret_cast<uint16_t*>(buffer.data())[i] = ToBFloat16(value);
      }
    }
    return {buffer.data(), dtype_, nullptr};
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
      shares[g].layers[l].gate = experts.layers[l].gate;
      shares[g].layers[l].gate_bias = experts.layers[l].gate_bias;
      for (int s = 0; s < placement.slots_of_instance[g]; ++s) {
        const uint16_t expert = placement.at(static_cast<int>(l), first + s);
        shares[g].layers[l].slots.push_back(expert == Placement::kEmpty
                                                ? std::optional<FfnTensors>()
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

namespace {

ModelDescription SmallLatentDescription(DType dtype) {
  ModelDescription model = SmallModelDescription(dtype);
  model.layers = 3;
  model.dense_layers = {1};
  model.dense_intermediate = 28;
  AttentionDescription& a = model.attention;
  a.heads = a.kv_heads = 3;
  a.head_dim = 18;
  a.scale = 1.0f / std::sqrt(18.0f);
  a.rope.rotary_dim = 8;
  a.rope.pairing = RopePairing::kInterleaved;
  a.rope.attention_factor = 1.1f;
  a.rope.yarn = YarnDescription{.factor = 4.0, .original_positions = 64.0, .beta_fast = 4.0};
  a.latent = LatentDescription{.rank = 21, .value_dim = 11, .query_rank = 17};
  model.moe.experts = 8;
  model.moe.groups = 4;
  model.moe.top_groups = 2;
  model.moe.renormalize = false;
  model.moe.weight_scale = 2.0f;
  model.moe.shared_intermediate = 24;
  return model;
}

void FillAttention(TensorMaker& make, const ModelDescription& model, AttentionLayerWeights& w) {
  const AttentionDescription& a = model.attention;
  const int h = model.hidden;
  const int q = a.heads * a.head_dim;
  w.input_norm = make.Norm(h);
  if (a.latent) {
    const LatentDescription& l = *a.latent;
    if (l.query_rank > 0) {
      w.q_a = make.Matrix(l.query_rank, h, 2.0f);
      w.q_a_norm = make.Norm(l.query_rank);
    }
    w.q = make.Matrix(q, l.query_rank > 0 ? l.query_rank : h, 2.0f);
    w.kv_a = make.Matrix(l.rank + a.rope.rotary_dim, h, 2.0f);
    w.kv_a_norm = make.Norm(l.rank);
    w.kv_b = make.Matrix(a.heads * (a.nope_dim() + l.value_dim), l.rank, 2.0f);
    w.o = make.Matrix(h, a.heads * l.value_dim, 1.5f);
  } else {
    const int kv = a.kv_heads * a.head_dim;
    w.q = make.Matrix(q, h, 2.0f);
    w.k = make.Matrix(kv, h, 2.0f);
    w.v = make.Matrix(kv, h, 1.5f);
    if (a.has_bias) {
      w.q_bias = make.Matrix(q, 1, 0.5f);
      w.k_bias = make.Matrix(kv, 1, 0.5f);
      w.v_bias = make.Matrix(kv, 1, 0.5f);
    }
    if (a.has_output_bias) w.o_bias = make.Matrix(h, 1, 0.5f);
    if (a.has_sinks) w.sinks = make.Bias(a.heads);
    if (HasNormWeights(a.norm)) {
      const bool each = a.norm == QueryKeyNorm::kEachHead;
      w.q_norm = make.Norm(each ? a.head_dim : q);
      w.k_norm = make.Norm(each ? a.head_dim : kv);
    }
    w.o = make.Matrix(h, q, 1.5f);
  }
  w.post_norm = make.Norm(h);
}

FfnTensors MakeFfn(TensorMaker& make, int hidden, int intermediate) {
  return {make.Matrix(intermediate, hidden, 1.5f), make.Matrix(intermediate, hidden, 1.5f),
          make.Matrix(hidden, intermediate, 1.5f)};
}

FfnTensors MakeScaledFfn(TensorMaker& make, DType type, int hidden, int intermediate) {
  return {make.ScaledMatrix(type, intermediate, hidden, 1.5f),
          make.ScaledMatrix(type, intermediate, hidden, 1.5f),
          make.ScaledMatrix(type, hidden, intermediate, 1.5f)};
}

}  // namespace

HeldModel RandomModel(const ModelDescription& model, uint64_t seed) {
  Maker make(model.dtype, seed);
  HeldModel held = RandomModel(model, make);
  held.keep = make.buffers();
  return held;
}

HeldModel RandomModel(const ModelDescription& model, TensorMaker& make) {
  HeldModel held;
  held.model = model;
  const int h = model.hidden;
  held.attention.embedding = make.Matrix(model.vocab, h, 6.0f);
  held.attention.final_norm = make.Norm(h);
  held.attention.lm_head = make.Matrix(model.vocab, h, 3.0f);
  for (int l = 0; l < model.layers; ++l) {
    AttentionLayerWeights& a = held.attention.layers.emplace_back();
    FillAttention(make, model, a);
    if (model.IsDense(l)) {
      a.ffn = MakeFfn(make, h, model.dense_intermediate);
      continue;
    }
    if (model.moe.shared_intermediate > 0) a.ffn = MakeFfn(make, h, model.moe.shared_intermediate);
    if (model.moe.has_shared_gate) a.shared_gate = make.Matrix(1, h, 1.5f);
    ExpertLayerWeights& e = held.experts.layers.emplace_back();
    e.gate = make.Matrix(model.moe.experts, h, 1.5f);
    if (model.moe.has_gate_bias()) e.gate_bias = make.Bias(model.moe.experts);
    a.moe_gate = e.gate;
    a.moe_gate_bias = e.gate_bias;
    for (int i = 0; i < model.moe.experts; ++i) {
      const int width = model.moe.intermediate;
      FfnTensors ffn = ExpertType(model) == model.dtype
                           ? MakeFfn(make, h, width)
                           : MakeScaledFfn(make, ExpertType(model), h, width);
      if (model.moe.has_expert_bias) {
        ffn.gate_bias = make.Bias(width);
        ffn.up_bias = make.Bias(width);
        ffn.down_bias = make.Bias(h);
      }
      e.slots.push_back(ffn);
    }
  }
  return held;
}

HeldModel SmallRandomModel(DType dtype, uint64_t seed) {
  return RandomModel(SmallModelDescription(dtype), seed);
}

HeldModel SmallFp8Model(DType dtype, uint64_t seed) {
  ModelDescription model = SmallModelDescription(dtype);
  model.has_fp8_weights = true;
  model.hidden = 168;
  model.moe.intermediate = 140;
  return RandomModel(model, seed);
}

HeldModel SmallMxfp4Model(DType dtype, uint64_t seed) {
  ModelDescription model = SmallModelDescription(dtype);
  model.mxfp4 = Mxfp4Layout::kCompressedTensors;
  model.hidden = 160;
  model.moe.intermediate = 96;
  return RandomModel(model, seed);
}

HeldModel SmallLatentModel(DType dtype, uint64_t seed) {
  return RandomModel(SmallLatentDescription(dtype), seed);
}

HeldModel GroupedHeadsModel(DType dtype, uint64_t seed) {
  ModelDescription model = SmallModelDescription(dtype);
  model.layers = 1;
  AttentionDescription& a = model.attention;
  a.heads = 4;
  a.head_dim = 64;
  a.scale = 0.125f;
  a.rope.rotary_dim = 64;
  return RandomModel(model, seed);
}

HeldModel DeepSeekHeadsModel(DType dtype, uint64_t seed) {
  ModelDescription model = SmallLatentDescription(dtype);
  model.layers = 1;
  model.dense_layers.clear();
  AttentionDescription& a = model.attention;
  a.heads = a.kv_heads = 2;
  a.head_dim = 192;
  a.scale = 1.0f / std::sqrt(192.0f);
  a.rope.rotary_dim = 64;
  a.latent->rank = 512;
  a.latent->value_dim = 128;
  return RandomModel(model, seed);
}

HeldModel SmallSigmoidModel(DType dtype, uint64_t seed) {
  ModelDescription model = SmallLatentDescription(dtype);
  model.moe.score = GateScore::kSigmoid;
  model.moe.renormalize = true;
  model.moe.experts = 9;
  model.moe.groups = 3;
  return RandomModel(model, seed);
}

HeldModel SmallGatedModel(DType dtype, uint64_t seed) {
  ModelDescription model = SmallModelDescription(dtype);
  model.layers = 3;
  model.dense_layers = {0};
  model.dense_intermediate = 28;
  AttentionDescription& a = model.attention;
  a.has_bias = true;
  a.norm = QueryKeyNorm::kAllHeads;
  a.clip = 1.5f;
  a.rope.rotary_dim = 8;
  model.moe.shared_intermediate = 24;
  model.moe.has_shared_gate = true;
  return RandomModel(model, seed);
}

HeldModel SmallSinksModel(DType dtype, uint64_t seed) {
  ModelDescription model = SmallModelDescription(dtype);
  model.layers = 3;
  AttentionDescription& a = model.attention;
  a.sliding_window = 7;
  a.full_layers = {1};
  a.has_bias = true;
  a.has_output_bias = true;
  a.has_sinks = true;
  model.moe.has_logit_bias = true;
  model.moe.has_expert_bias = true;
  model.moe.swiglu_limit = 0.9f;
  model.moe.swiglu_alpha = 1.7f;
  return RandomModel(model, seed);
}

HeldModel SmallChunksModel(DType dtype, uint64_t seed) {
  ModelDescription model = SmallModelDescription(dtype);
  model.layers = 4;
  model.dense_layers = {0};
  model.dense_intermediate = 28;
  AttentionDescription& a = model.attention;
  a.chunk = 11;
  a.full_layers = {2};
  a.no_rope_layers = {2};
  a.temperature = TemperatureDescription{.scale = 0.7, .floor = 6};
  a.norm = QueryKeyNorm::kTurnedHeads;
  a.rope.pairing = RopePairing::kInterleaved;
  a.rope.llama3 = Llama3RopeDescription{.factor = 4.0, .original_positions = 64.0};
  model.moe.renormalize = false;
  model.moe.score = GateScore::kSigmoidOfChosen;
  model.moe.weighs_inputs = true;
  model.moe.shared_intermediate = 24;
  return RandomModel(model, seed);
}

std::optional<HeldModel> HeldByName(const std::string& name, DType dtype, uint64_t seed) {
  if (name == "small") return SmallRandomModel(dtype, seed);
  if (name == "small_latent") return SmallLatentModel(dtype, seed);
  if (name == "grouped_heads") return GroupedHeadsModel(dtype, seed);
  if (name == "deepseek_heads") return DeepSeekHeadsModel(dtype, seed);
  if (name == "small_fp8") return SmallFp8Model(dtype, seed);
  if (name == "small_mxfp4") return SmallMxfp4Model(dtype, seed);
  if (name == "small_gated") return SmallGatedModel(dtype, seed);
  if (name == "small_sinks") return SmallSinksModel(dtype, seed);
  if (name == "small_chunks") return SmallChunksModel(dtype, seed);
  if (name == "small_sigmoid") return SmallSigmoidModel(dtype, seed);
  return std::nullopt;
}

}  // namespace janus::dataplane
