#include "dataplane/model/load_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/model/config.h"
#include "common/model/memory.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/contains.h"
#include "tests/support/golden.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"
#include "tests/support/mxfp4_checkpoint.h"

namespace janus::dataplane {
namespace {

ModelDescription Model(DType dtype = DType::kFloat32) {
  return SmallModelDescription(dtype);
}

// Loads both roles, with one expert instance that holds all experts.
Status LoadAll(const std::string& folder, const ModelDescription& model) {
  const Topology topology = MakeTopology(1, {model.moe.experts}, model.layers, model.moe.experts);
  const auto attention = LoadAttention(folder, model, nullptr, {});
  if (!attention.ok()) return attention.status();
  return LoadExperts(folder, model, topology.placement, Rank{0}, nullptr, {}).status();
}

void ExpectSame(const Tensor& tensor, const FileTensor& want) {
  EXPECT_EQ(std::memcmp(tensor.data, want.bytes.data(), want.bytes.size()), 0);
}

template <class Weights>
bool HoldsCasts(const Loaded<Weights>& loaded) {
  return std::any_of(loaded.tensors.begin(), loaded.tensors.end(),
                     [](const auto& held) { return held.second.memory != nullptr; });
}

TEST(LoadWeights, ASingleFileAndShardsGiveTheSameWeights) {
  const ModelDescription model = Model();
  const FileTensors tensors = MixtralTensors(model, 1);
  const TempFolder single, sharded;
  single.Write("model.safetensors", SafetensorsBytes(tensors));
  WriteSharded(sharded, tensors, 3);
  const Topology topology = MakeTopology(1, {4, 5}, model.layers, model.moe.experts);
  for (const TempFolder* folder : {&single, &sharded}) {
    const bool with_gates = folder == &single;
    const auto attention = LoadAttention(folder->path(), model, nullptr, {}, nullptr, with_gates);
    ASSERT_TRUE(attention.ok()) << attention.status().ToString();
    const AttentionWeights& w = attention->weights;
    ExpectSame(w.embedding, tensors.at("model.embed_tokens.weight"));
    ExpectSame(w.final_norm, tensors.at("model.norm.weight"));
    ExpectSame(w.lm_head, tensors.at("lm_head.weight"));
    ASSERT_EQ(static_cast<int>(w.layers.size()), model.layers);
    for (int l = 0; l < model.layers; ++l) {
      const AttentionLayerWeights& layer = w.layers[static_cast<size_t>(l)];
      const std::string name = "model.layers." + std::to_string(l) + ".";
      ExpectSame(layer.input_norm, tensors.at(name + "input_layernorm.weight"));
      ExpectSame(layer.q, tensors.at(name + "self_attn.q_proj.weight"));
      ExpectSame(layer.k, tensors.at(name + "self_attn.k_proj.weight"));
      ExpectSame(layer.v, tensors.at(name + "self_attn.v_proj.weight"));
      ExpectSame(layer.o, tensors.at(name + "self_attn.o_proj.weight"));
      ExpectSame(layer.post_norm, tensors.at(name + "post_attention_layernorm.weight"));
      EXPECT_EQ(layer.moe_gate.data != nullptr, with_gates);
      if (with_gates) {
        ExpectSame(layer.moe_gate, tensors.at(name + "block_sparse_moe.gate.weight"));
      }
    }
    for (int g = 0; g < 2; ++g) {
      const auto experts =
          LoadExperts(folder->path(), model, topology.placement, Rank{g}, nullptr, {});
      ASSERT_TRUE(experts.ok()) << experts.status().ToString();
      for (int l = 0; l < model.layers; ++l) {
        const ExpertLayerWeights& layer = experts->weights.layers[static_cast<size_t>(l)];
        const std::string moe = "model.layers." + std::to_string(l) + ".block_sparse_moe.";
        ExpectSame(layer.gate, tensors.at(moe + "gate.weight"));
        for (size_t s = 0; s < layer.slots.size(); ++s) {
          const uint16_t expert = topology.placement.at(
              l, topology.placement.first_slot(Rank{g}) + static_cast<int>(s));
          ASSERT_EQ(layer.slots[s].has_value(), expert != Placement::kEmpty);
          if (!layer.slots[s]) continue;
          const std::string name = moe + "experts." + std::to_string(expert) + ".";
          ExpectSame(layer.slots[s]->gate, tensors.at(name + "w1.weight"));
          ExpectSame(layer.slots[s]->up, tensors.at(name + "w3.weight"));
          ExpectSame(layer.slots[s]->down, tensors.at(name + "w2.weight"));
        }
      }
    }
  }
}

// Experts in the format of transformers 5: gate_up_proj and down_proj of a whole layer.
FileTensors Fused(const FileTensors& tensors, const ModelDescription& model) {
  FileTensors out;
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".experts.") == std::string::npos) out[name] = tensor;
  }
  const int64_t h = model.hidden, width = model.moe.intermediate, n = model.moe.experts;
  for (int l = 0; l < model.layers; ++l) {
    const std::string prefix = "model.layers." + std::to_string(l) + ".block_sparse_moe.experts.";
    FileTensor gate_up{"F32", {n, 2 * width, h}, ""}, down{"F32", {n, h, width}, ""};
    for (int e = 0; e < model.moe.experts; ++e) {
      const std::string own = prefix + std::to_string(e) + ".";
      gate_up.bytes += tensors.at(own + "w1.weight").bytes + tensors.at(own + "w3.weight").bytes;
      down.bytes += tensors.at(own + "w2.weight").bytes;
    }
    out[prefix + "gate_up_proj"] = gate_up;
    out[prefix + "down_proj"] = down;
  }
  return out;
}

TEST(Loader, FusedExpertsGiveTheSameWeights) {
  const ModelDescription model = Model();
  const FileTensors tensors = MixtralTensors(model, 3);
  const TempFolder single, sharded;
  single.Write("model.safetensors", SafetensorsBytes(Fused(tensors, model)));
  WriteSharded(sharded, Fused(tensors, model), 3);
  const Topology topology = MakeTopology(1, {4, 5}, model.layers, model.moe.experts);
  for (const TempFolder* folder : {&single, &sharded}) {
    const auto experts =
        LoadExperts(folder->path(), model, topology.placement, Rank{1}, nullptr, {});
    ASSERT_TRUE(experts.ok()) << experts.status().ToString();
    for (int l = 0; l < model.layers; ++l) {
      const ExpertLayerWeights& layer = experts->weights.layers[static_cast<size_t>(l)];
      for (size_t s = 0; s < layer.slots.size(); ++s) {
        const uint16_t expert =
            topology.placement.at(l, topology.placement.first_slot(Rank{1}) + static_cast<int>(s));
        if (expert == Placement::kEmpty) continue;
        const std::string own = "model.layers." + std::to_string(l) + ".block_sparse_moe.experts." +
                                std::to_string(expert) + ".";
        ExpectSame(layer.slots[s]->gate, tensors.at(own + "w1.weight"));
        ExpectSame(layer.slots[s]->up, tensors.at(own + "w3.weight"));
        ExpectSame(layer.slots[s]->down, tensors.at(own + "w2.weight"));
      }
    }
  }
}

TEST(Loader, RefusesFusedExpertsOfAnotherLayout) {
  const ModelDescription model = Model();
  FileTensors tensors = Fused(MixtralTensors(model, 3), model);
  const std::string name = "model.layers.0.block_sparse_moe.experts.gate_up_proj";
  std::vector<int64_t>& shape = tensors[name].shape;
  shape = {shape[0], 1, shape[1] * shape[2]};
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  EXPECT_TRUE(Contains(LoadAll(folder.path(), model).message(), "'" + name + "': shape ["));
}

TEST(Loader, RefusesAHeadThatDiffersFromTheEmbeddingsItIsTiedTo) {
  ModelDescription model = Model();
  model.tied_embeddings = true;
  FileTensors tensors = MixtralTensors(model, 1);
  const TempFolder folder;
  const auto load = [&] {
    folder.Write("model.safetensors", SafetensorsBytes(tensors));
    return LoadAll(folder.path(), model);
  };
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  EXPECT_TRUE(load().ok());
  tensors["lm_head.weight"].bytes[3] ^= 1;
  EXPECT_TRUE(Contains(load().message(), "set it to false to use 'lm_head.weight'"));
  tensors.erase("lm_head.weight");
  EXPECT_TRUE(load().ok());
}

// Gates' biases are Float32, independent of the type of all other weights.
class LoadGateBiasTest : public testing::Test {
 protected:
  LoadGateBiasTest() {
    model_.moe.score = GateScore::kSigmoid;
    for (int l = 0; l < model_.layers; ++l) {
      tensors_[Name(l)] = RandomTensor(DType::kFloat32, {model_.moe.experts}, 7);
    }
  }
  static std::string Name(int layer) {
    return "model.layers." + std::to_string(layer) + ".mlp.gate.e_score_correction_bias";
  }
  Result<Loaded<ExpertWeights>> Load() {
    folder_.Write("model.safetensors", SafetensorsBytes(tensors_));
    const Topology topology = MakeTopology(1, {4, 5}, model_.layers, model_.moe.experts);
    return LoadExperts(folder_.path(), model_, topology.placement, Rank{1}, nullptr, {});
  }

  ModelDescription model_ = Model(DType::kBFloat16);
  FileTensors tensors_ = MixtralTensors(model_, 11);
  const TempFolder folder_;
};

TEST_F(LoadGateBiasTest, StayInFloat32) {
  const auto experts = Load();
  ASSERT_TRUE(experts.ok()) << experts.status().ToString();
  for (int l = 0; l < model_.layers; ++l) {
    const ExpertLayerWeights& layer = experts->weights.layers[static_cast<size_t>(l)];
    EXPECT_EQ(layer.gate.dtype, DType::kBFloat16);
    EXPECT_EQ(layer.gate_bias.dtype, DType::kFloat32);
    ExpectSame(layer.gate_bias, tensors_.at(Name(l)));
  }
}

TEST_F(LoadGateBiasTest, AreCastWhereTheyWereStoredShorter) {
  tensors_[Name(1)] = RandomTensor(DType::kBFloat16, {model_.moe.experts}, 8);
  const auto experts = Load();
  ASSERT_TRUE(experts.ok()) << experts.status().ToString();
  const Tensor& bias = experts->weights.layers[1].gate_bias;
  ASSERT_EQ(bias.dtype, DType::kFloat32);
  for (int e = 0; e < model_.moe.experts; ++e) {
    uint16_t stored;
    std::memcpy(&stored, tensors_.at(Name(1)).bytes.data() + 2 * e, sizeof stored);
    EXPECT_EQ(static_cast<const float*>(bias.data)[e], FromBFloat16(stored));
  }
}

TEST_F(LoadGateBiasTest, AreRefusedWhenMissingOrOfAnotherShape) {
  tensors_[Name(1)] = RandomTensor(DType::kFloat32, {model_.moe.experts + 1}, 7);
  const auto reshaped = Load();
  EXPECT_EQ(reshaped.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(reshaped.status().message().find(Name(1)), std::string::npos);
  tensors_.erase(Name(1));
  const auto missing = Load();
  EXPECT_EQ(missing.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(missing.status().message().find(Name(1)), std::string::npos);
  model_.moe.score = GateScore::kSoftmax;
  const auto without = Load();
  ASSERT_TRUE(without.ok()) << without.status().ToString();
  EXPECT_EQ(without->weights.layers[0].gate_bias.data, nullptr);
}

ModelDescription Fp8Model(DType dtype) {
  ModelDescription model = Model(dtype);
  model.has_fp8_weights = true;
  model.hidden = 168;
  model.moe.intermediate = 140;
  return model;
}
FileTensors Fp8Tensors(uint64_t seed) {
  return InFp8(MixtralTensors(Fp8Model(DType::kFloat32), seed), [](const std::string& name) {
    return name.find("_proj") != std::string::npos || name.find("experts") != std::string::npos;
  });
}

// Expects instance 0 to hold its experts, quantized, exactly as in the file, with the scales of
// "x.weight" in `scales`, and to use at most the planned bytes.
void ExpectExpertsAsStored(const std::string& folder, const ModelDescription& model,
                           const FileTensors& tensors,
                           const std::function<std::string(const std::string&)>& packed,
                           const std::string& scales, const LoadProgress& progress) {
  const Topology topology = MakeTopology(1, {4, 5}, model.layers, model.moe.experts);
  const auto experts = LoadExperts(folder, model, topology.placement, Rank{0}, progress, {});
  ASSERT_TRUE(experts.ok()) << experts.status().ToString();
  int64_t bytes = 0;
  for (int l = 0; l < model.layers; ++l) {
    const std::string moe = "model.layers." + std::to_string(l) + ".block_sparse_moe.";
    const ExpertLayerWeights& layer = experts->weights.layers[static_cast<size_t>(l)];
    EXPECT_EQ(layer.gate.dtype, model.dtype);
    if (model.dtype == DType::kFloat32) ExpectSame(layer.gate, tensors.at(moe + "gate.weight"));
    bytes += model.moe.experts * model.hidden * SizeOf(model.dtype);
    for (int s = 0; s < 4; ++s) {
      const std::string name = moe + "experts." + std::to_string(topology.placement.at(l, s)) + ".";
      const FfnTensors& ffn = *layer.slots[static_cast<size_t>(s)];
      for (const auto& [tensor, part] :
           {std::pair(&ffn.gate, "w1"), {&ffn.up, "w3"}, {&ffn.down, "w2"}}) {
        EXPECT_EQ(tensor->dtype, ExpertType(model));
        const std::string weight = name + part + ".weight";
        ExpectSame(*tensor, tensors.at(packed(weight)));
        const std::string& wanted = tensors.at(weight + scales).bytes;
        EXPECT_EQ(std::memcmp(tensor->scales, wanted.data(), wanted.size()), 0);
      }
      bytes += ExpertWeightBytes(model);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(experts->bytes), bytes) << "an instance's memory is planned by it";
  // The next epoch shares what an instance has, including scales.
  const Topology next = MakeTopology(1, {5, 4}, model.layers, model.moe.experts);
  const auto again = LoadExperts(folder, model, next.placement, Rank{0}, nullptr, {}, &*experts);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->weights.layers[0].slots[0]->up.scales,
            experts->weights.layers[0].slots[0]->up.scales);
}

// Experts stay as they are, with their scales; other fp8 tensors become the numbers that they
// represent.
TEST(LoadWeights, ReadsFp8WithItsScales) {
  const FileTensors tensors = Fp8Tensors(21);
  const FileTensors meant = OutOfFp8(tensors);
  const TempFolder folder;
  WriteSharded(folder, tensors, 3);
  const ModelDescription model = Fp8Model(DType::kFloat32);
  const auto attention = LoadAttention(folder.path(), model, nullptr, {});
  ASSERT_TRUE(attention.ok()) << attention.status().ToString();
  for (int l = 0; l < model.layers; ++l) {
    const AttentionLayerWeights& layer = attention->weights.layers[static_cast<size_t>(l)];
    const std::string name = "model.layers." + std::to_string(l) + ".";
    ExpectSame(layer.q, meant.at(name + "self_attn.q_proj.weight"));
    ExpectSame(layer.o, meant.at(name + "self_attn.o_proj.weight"));
    ExpectSame(layer.post_norm, meant.at(name + "post_attention_layernorm.weight"));
    EXPECT_EQ(layer.q.dtype, DType::kFloat32);
    EXPECT_EQ(layer.q.scales, nullptr);
  }
  ExpectExpertsAsStored(
      folder.path(), model, tensors, [](const std::string& name) { return name; }, "_scale_inv",
      nullptr);
}

TEST(LoadWeights, CastsFp8ToWhatTheModelComputesIn) {
  const FileTensors tensors = Fp8Tensors(22);
  const FileTensors meant = OutOfFp8(tensors);
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const auto loaded = LoadAttention(folder.path(), Fp8Model(DType::kBFloat16), nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const std::string& bytes = meant.at("model.layers.1.self_attn.q_proj.weight").bytes;
  const auto* const q = static_cast<const uint16_t*>(loaded->weights.layers[1].q.data);
  for (size_t i = 0; i < bytes.size() / 4; ++i) {
    float want;
    std::memcpy(&want, bytes.data() + i * 4, 4);
    ASSERT_EQ(q[i], ToBFloat16(want)) << i;
  }
}

// Moves tensors to separate memory.
class MovedTest : public testing::Test {
 protected:
  Status Move(HeldTensor& held) {
    EXPECT_TRUE(before_.expired()) << "two casts lie in the host's memory at once";
    before_ = held.memory;
    casts_ += held.memory != nullptr ? 1 : 0;
    if (--before_it_is_full_ < 0) return ResourceExhausted("full");
    auto memory = std::make_shared_for_overwrite<std::byte[]>(held.bytes);
    std::memcpy(memory.get(), held.tensor.data, held.bytes);
    held.tensor.data = memory.get();
    held.memory = std::move(memory);
    return OkStatus();
  }
  Result<Loaded<AttentionWeights>> Load(const ModelDescription& model) {
    return LoadAttention(folder_.path(), model, nullptr, {},
                         [this](HeldTensor& held) { return Move(held); });
  }

  const TempFolder folder_;
  std::weak_ptr<const std::byte[]> before_;
  int casts_ = 0;
  int before_it_is_full_ = 1000;
};

TEST_F(MovedTest, OneCastAtATimeLiesInTheHostsMemory) {
  folder_.Write("model.safetensors", SafetensorsBytes(Fp8Tensors(25)));
  const ModelDescription model = Fp8Model(DType::kBFloat16);
  const auto moved = Load(model);
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_EQ(casts_, 3 + 6 * model.layers) << "all is stored in other formats";
  EXPECT_EQ(moved->checkpoint, nullptr) << "nobody reads the files any more";
  const auto whole = LoadAttention(folder_.path(), model, nullptr, {});
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_EQ(moved->bytes, whole->bytes);
  ASSERT_EQ(moved->tensors.size(), whole->tensors.size());
  for (const auto& [name, held] : whole->tensors) {
    const HeldTensor& other = moved->tensors.at(name);
    ASSERT_EQ(other.bytes, held.bytes) << name;
    EXPECT_EQ(std::memcmp(other.tensor.data, held.tensor.data, held.bytes), 0) << name;
    EXPECT_EQ(other.tensor.data, other.memory.get()) << name;
  }
  EXPECT_EQ(moved->weights.layers[1].o.data,
            moved->tensors.at("model.layers.1.self_attn.o_proj.weight").tensor.data);
}

TEST_F(MovedTest, ATiedHeadIsTheMovedEmbedding) {
  ModelDescription model = Model();
  FileTensors tensors = MixtralTensors(model, 26);
  tensors.erase("lm_head.weight");
  folder_.Write("model.safetensors", SafetensorsBytes(tensors));
  model.tied_embeddings = true;
  const auto moved = Load(model);
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_EQ(moved->weights.lm_head.data, moved->weights.embedding.data);
  EXPECT_EQ(moved->weights.lm_head.data,
            moved->tensors.at("model.embed_tokens.weight").memory.get());
  ExpectSame(moved->weights.lm_head, tensors.at("model.embed_tokens.weight"));
}

TEST_F(MovedTest, WhatCannotBeMovedEndsIt) {
  folder_.Write("model.safetensors", SafetensorsBytes(MixtralTensors(Model(), 27)));
  before_it_is_full_ = 5;
  EXPECT_EQ(Load(Model()).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(before_it_is_full_, -1) << "no other one was tried";
}

TEST(LoadWeights, TheLargestTensorOfAttentionIsAsPlanned) {
  for (const char* const family : kGoldenFamilies) {
    const std::string folder = ReadGolden(family).folder;
    ModelDescription model = *LoadModelConfig(folder);
    const auto loaded = LoadAttention(folder, model, nullptr, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    uint64_t largest = 0;
    for (const auto& [name, held] : loaded->tensors) largest = std::max(largest, held.bytes);
    EXPECT_EQ(LargestAttentionTensorBytes(model), static_cast<int64_t>(largest)) << family;
  }
}

// Published files have scales in either format.
TEST(LoadWeights, ReadsScalesOfBFloat16) {
  FileTensors tensors = Fp8Tensors(23);
  for (auto& [name, tensor] : tensors) {
    if (!name.ends_with("_scale_inv")) continue;
    std::string half;
    for (size_t i = 0; i < tensor.bytes.size(); i += 4) {
      float value;
      std::memcpy(&value, tensor.bytes.data() + i, 4);
      const uint16_t bits = ToBFloat16(value);
      half.append(reinterpret_cast<const char*>(&bits), 2);
    }
    tensor.dtype = "BF16";
    tensor.bytes = half;
  }
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const ModelDescription model = Fp8Model(DType::kFloat32);
  const Topology topology = MakeTopology(1, {7}, model.layers, model.moe.experts);
  const auto experts = LoadExperts(folder.path(), model, topology.placement, Rank{0}, nullptr, {});
  ASSERT_TRUE(experts.ok()) << experts.status().ToString();
  uint16_t first;
  std::memcpy(
      &first,
      tensors.at("model.layers.0.block_sparse_moe.experts.0.w1.weight_scale_inv").bytes.data(), 2);
  EXPECT_EQ(static_cast<const float*>(experts->weights.layers[0].slots[0]->gate.scales)[0],
            FromBFloat16(first));
}

TEST(LoadWeights, NamesWhatIsWrongWithFp8) {
  const ModelDescription model = Fp8Model(DType::kFloat32);
  const std::string expert = "model.layers.0.block_sparse_moe.experts.2.w2.weight";
  const std::string query = "model.layers.1.self_attn.q_proj.weight";
  const auto says = [&](const std::function<void(FileTensors&)>& spoil, ModelDescription as,
                        const std::string& part) {
    FileTensors tensors = Fp8Tensors(24);
    spoil(tensors);
    const TempFolder folder;
    folder.Write("model.safetensors", SafetensorsBytes(tensors));
    const Status status = LoadAll(folder.path(), as);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(status.message(), part)) << status.ToString();
  };
  says([](FileTensors&) {},
       [&] {
         ModelDescription m = model;
         m.has_fp8_weights = false;
         return m;
       }(),
       "_proj.weight' is of type F8_E4M3, and config.json has no quantization_config; add");
  for (const std::string& name : {expert, query}) {
    says([&](FileTensors& t) { t.erase(name + "_scale_inv"); }, model,
         "no tensor '" + name + "_scale_inv'");
    says(
        [&](FileTensors& t) {
          std::vector<int64_t>& shape = t[name + "_scale_inv"].shape;
          shape = {shape[0] * shape[1], 1};
        },
        model,
        "_scale_inv': shape [" + std::string(name == expert ? "4" : "2") +
            ",1], config.json asks for [");
    says([&](FileTensors& t) { t[name].bytes[5] = '\x7f'; }, model,
         "tensor '" + name + "' holds a NaN or an infinity");
    says(
        [&](FileTensors& t) {
          const float bad = INFINITY;
          std::memcpy(t[name + "_scale_inv"].bytes.data() + 4, &bad, 4);
        },
        model, "tensor '" + name + "_scale_inv' holds a NaN or an infinity");
  }
  says([&](FileTensors& t) { t[expert] = OutOfFp8(t).at(expert); }, model,
       "tensor '" + expert +
           "' is of type F32, where config.json's quantization_config says fp8 (F8_E4M3). If the "
           "weights are not quantized, remove quantization_config from config.json");
  says(
      [](FileTensors& t) {
        t["model.norm.weight"] = {"F8_E4M3", {168}, std::string(168, '\x20')};
      },
      model, "tensor 'model.norm.weight' is of type F8_E4M3 and no matrix");
}

class LoadMxfp4Test : public testing::TestWithParam<Mxfp4Layout> {
 protected:
  static bool IsExpert(const std::string& name) {
    return name.find(".experts.") != std::string::npos;
  }
  static ModelDescription Model(DType dtype, Mxfp4Layout layout) {
    ModelDescription model = SmallModelDescription(dtype);
    model.mxfp4 = layout;
    model.hidden = 160;
    model.moe.intermediate = 96;
    return model;
  }
  static std::string Name(int expert, const std::string& part) {
    return "model.layers.1.block_sparse_moe.experts." + std::to_string(expert) + "." + part +
           ".weight";
  }
  std::string Packed(const std::string& name) const { return is_quark() ? name : name + "_packed"; }
  bool is_quark() const { return GetParam() == Mxfp4Layout::kQuark; }

  const ModelDescription model_ = Model(DType::kBFloat16, GetParam());
  const FileTensors plain_ = MixtralTensors(Model(DType::kFloat32, GetParam()), 31);
  const FileTensors tensors_ = InMxfp4(plain_, GetParam(), IsExpert);
};
INSTANTIATE_TEST_SUITE_P(Layouts, LoadMxfp4Test,
                         testing::Values(Mxfp4Layout::kCompressedTensors, Mxfp4Layout::kQuark),
                         [](const auto& info) {
                           return info.param == Mxfp4Layout::kQuark ? "Quark" : "CompressedTensors";
                         });

// Experts stay as they are in the file, with their scales; all other tensors are unchanged.
TEST_P(LoadMxfp4Test, ReadsExpertsWithTheirScales) {
  const TempFolder folder;
  WriteSharded(folder, tensors_, 3);
  const auto attention = LoadAttention(folder.path(), model_, nullptr, {});
  ASSERT_TRUE(attention.ok()) << attention.status().ToString();
  EXPECT_EQ(attention->weights.layers[0].q.dtype, DType::kBFloat16);
  uint64_t done = 0, total = 0;
  ExpectExpertsAsStored(
      folder.path(), model_, tensors_, [&](const std::string& name) { return Packed(name); },
      "_scale",
      [&](uint64_t bytes_done, uint64_t bytes_total) {
        done = bytes_done;
        total = bytes_total;
      });
  EXPECT_GT(total, 0u);
  EXPECT_EQ(done, total);
}

TEST_P(LoadMxfp4Test, TakesEveryScaleUpToTheLargest) {
  FileTensors tensors = tensors_;
  std::string& scales = tensors.at(Name(2, "w2") + "_scale").bytes;
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<char>(i % 253);
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const Placement placement =
      MakeTopology(1, {model_.moe.experts}, model_.layers, model_.moe.experts).placement;
  const auto loaded = LoadExperts(folder.path(), model_, placement, Rank{0}, nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  int found = 0;
  for (int s = 0; s < model_.moe.experts; ++s) {
    if (placement.at(1, s) != 2) continue;
    const Tensor& down = loaded->weights.layers[1].slots[static_cast<size_t>(s)]->down;
    ExpectSame(down, tensors.at(Packed(Name(2, "w2"))));
    EXPECT_EQ(std::memcmp(down.scales, scales.data(), scales.size()), 0);
    ++found;
  }
  EXPECT_EQ(found, 1);
  EXPECT_GE(scales.size(), 253u) << "every scale is among them";
}

TEST_P(LoadMxfp4Test, NamesWhatIsWrong) {
  const auto says = [&](const std::function<void(FileTensors&)>& spoil, const std::string& part) {
    FileTensors tensors = tensors_;
    spoil(tensors);
    const TempFolder folder;
    folder.Write("model.safetensors", SafetensorsBytes(tensors));
    const Status status = LoadAll(folder.path(), model_);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(status.message(), part)) << status.ToString() << "\n, wanted " << part;
  };
  const std::string down = Name(2, "w2");  // [160, 96]: 3 blocks a row
  says([&](FileTensors& t) { t.at(down + "_scale").bytes[3 * 7 + 2] = '\xff'; },
       "tensor '" + down + "_scale' has 255 at [7,2], which is NaN; scales up to 252 are served");
  says([&](FileTensors& t) { t.at(down + "_scale").bytes[0] = '\xfd'; },
       "_scale' has 253 at [0,0], 2 to the power of 126: weights under it may be beyond what");
  says([&](FileTensors& t) { t.erase(down + "_scale"); }, "no tensor '" + down + "_scale'");
  says([&](FileTensors& t) { t.erase(Packed(down)); }, "no tensor '" + Packed(down) + "'");
  says(
      [&](FileTensors& t) {
        t.at(Packed(down)).shape = {48, 160};
      },
      "tensor '" + Packed(down) + "': shape [48,160], config.json asks for [160,48]");
  says([&](FileTensors& t) { t.at(down + "_scale").shape = {160 * 3}; },
       "tensor '" + down + "_scale': shape [480], config.json asks for [160,3]");
  says(
      [&](FileTensors& t) {
        t.at(down + "_scale") = RandomTensor(DType::kFloat32, {160, 3}, 5);
      },
      "tensor '" + down +
          "_scale' is of type F32, where config.json's quantization_config asks for mxfp4 (U8)");
  says([&](FileTensors& t) { t.at(down + "_scale").dtype = "I8"; },
       "tensor '" + down +
           "_scale' is of type I8, where config.json's quantization_config asks for mxfp4 (U8)");
  // One expert was not quantized.
  says(
      [&](FileTensors& t) {
        t.erase(Packed(down));
        t.erase(down + "_scale");
        t[down] = plain_.at(down);
      },
      is_quark() ? "tensor '" + down +
                       "' is of type F32, where config.json's quantization_config asks for mxfp4"
                 : "tensor '" + down + "' is in the checkpoint in place of '" + down + "_packed'");
  // A tensor in mxfp4 that is no expert's.
  const std::string query = "model.layers.1.self_attn.q_proj.weight";
  const std::string gate = "model.layers.0.block_sparse_moe.gate.weight";
  for (const std::string& name : {query, gate}) {
    says([&](FileTensors& t) { t = InMxfp4(t, GetParam(), [&](auto& n) { return n == name; }); },
         "tensor '" + name +
             "_scale' is in the checkpoint: only routed experts are served in mxfp4");
  }
}

TEST_P(LoadMxfp4Test, RefusesItWhereConfigDoesNotSayIt) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors_));
  ModelDescription model = model_;
  model.mxfp4 = Mxfp4Layout::kNone;
  const Status status = LoadAll(folder.path(), model);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(status.message(),
                       is_quark()
                           ? "is of type U8; F32, BF16, F16 and F8_E4M3"
                           : "it is quantized, and config.json's quantization_config is missing"))
      << status.ToString();
}

// A checkpoint in gpt-oss's form: all experts of a layer together, with inputs first, gates and ups
// in turns.
class LoadTogetherTest : public testing::Test {
 protected:
  static ModelDescription Model(DType dtype) {
    ModelDescription model = SmallModelDescription(dtype);
    model.family = "gpt_oss";
    model.hidden = 64;
    model.moe.intermediate = 96;
    model.attention.has_bias = model.attention.has_output_bias = true;
    model.attention.has_sinks = true;
    model.moe.has_logit_bias = model.moe.has_expert_bias = true;
    return model;
  }
  static FileTensors Tensors() {
    const ModelDescription model = Model(DType::kFloat32);
    const int64_t h = model.hidden, width = model.moe.intermediate, experts = model.moe.experts;
    FileTensors out;
    for (auto& [name, tensor] : MixtralTensors(model, 41)) {
      if (name.find("block_sparse_moe") == std::string::npos) out[name] = std::move(tensor);
    }
    uint64_t seed = 50;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      out[name] = RandomTensor(DType::kFloat32, std::move(shape), ++seed);
    };
    for (int l = 0; l < model.layers; ++l) {
      const std::string layer = "model.layers." + std::to_string(l) + ".";
      const int64_t q = int64_t{model.attention.heads} * model.attention.head_dim;
      const int64_t kv = int64_t{model.attention.kv_heads} * model.attention.head_dim;
      add(layer + "self_attn.q_proj.bias", {q});
      add(layer + "self_attn.k_proj.bias", {kv});
      add(layer + "self_attn.v_proj.bias", {kv});
      add(layer + "self_attn.o_proj.bias", {h});
      add(layer + "self_attn.sinks", {model.attention.heads});
      add(layer + "mlp.router.weight", {experts, h});
      add(layer + "mlp.router.bias", {experts});
      add(layer + "mlp.experts.gate_up_proj", {experts, h, 2 * width});
      add(layer + "mlp.experts.gate_up_proj_bias", {experts, 2 * width});
      add(layer + "mlp.experts.down_proj", {experts, width, h});
      add(layer + "mlp.experts.down_proj_bias", {experts, h});
    }
    return out;
  }
  static bool IsExperts(const std::string& name) {
    return name.ends_with("_up_proj") || name.ends_with("experts.down_proj");
  }
  static float At(const FileTensor& tensor, int64_t index) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + 4 * index, 4);
    return value;
  }
  static float At(const Tensor& tensor, int64_t index) {
    return static_cast<const float*>(tensor.data)[index];
  }
  Result<Loaded<ExpertWeights>> Load(const FileTensors& tensors, const ModelDescription& model,
                                     int rank = 0, const Loaded<ExpertWeights>* known = nullptr) {
    folder_.Write("model.safetensors", SafetensorsBytes(tensors));
    return LoadExperts(
        folder_.path(), model, topology_.placement, Rank{rank},
        [this](uint64_t done, uint64_t total) {
          done_ = done;
          total_ = total;
        },
        {}, known);
  }

  const ModelDescription model_ = Model(DType::kFloat32);
  const FileTensors tensors_ = Tensors();
  const Topology topology_ = MakeTopology(1, {3, 4}, model_.layers, model_.moe.experts);
  const TempFolder folder_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

TEST_F(LoadTogetherTest, ReadsTheMatricesAndBiasesOfItsExperts) {
  const int64_t h = model_.hidden, width = model_.moe.intermediate;
  const auto loaded = Load(tensors_, model_, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (int l = 0; l < model_.layers; ++l) {
    const std::string all = "model.layers." + std::to_string(l) + ".mlp.experts.";
    const FileTensor& gate_up = tensors_.at(all + "gate_up_proj");
    const FileTensor& gate_up_bias = tensors_.at(all + "gate_up_proj_bias");
    const FileTensor& down = tensors_.at(all + "down_proj");
    const FileTensor& down_bias = tensors_.at(all + "down_proj_bias");
    const ExpertLayerWeights& layer = loaded->weights.layers[static_cast<size_t>(l)];
    ExpectSame(layer.gate, tensors_.at("model.layers." + std::to_string(l) + ".mlp.router.weight"));
    ExpectSame(layer.gate_bias,
               tensors_.at("model.layers." + std::to_string(l) + ".mlp.router.bias"));
    for (int s = 0; s < 4; ++s) {
      const int64_t e = topology_.placement.at(l, topology_.placement.first_slot(Rank{1}) + s);
      const FfnTensors& ffn = *layer.slots[static_cast<size_t>(s)];
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t k = 0; k < h; ++k) {
          const int64_t row = (e * h + k) * 2 * width;
          ASSERT_EQ(At(ffn.gate, i * h + k), At(gate_up, row + 2 * i)) << i << ' ' << k;
          ASSERT_EQ(At(ffn.up, i * h + k), At(gate_up, row + 2 * i + 1)) << i << ' ' << k;
          ASSERT_EQ(At(ffn.down, k * width + i), At(down, (e * width + i) * h + k));
        }
        ASSERT_EQ(At(ffn.gate_bias, i), At(gate_up_bias, e * 2 * width + 2 * i));
        ASSERT_EQ(At(ffn.up_bias, i), At(gate_up_bias, e * 2 * width + 2 * i + 1));
      }
      for (int64_t k = 0; k < h; ++k) ASSERT_EQ(At(ffn.down_bias, k), At(down_bias, e * h + k));
    }
  }
  // Gates and four experts a layer, and no more.
  const int64_t expert = 3 * h * width + 2 * width + h;
  const int64_t gate = model_.moe.experts * (h + 1);
  EXPECT_EQ(total_, static_cast<uint64_t>(4 * model_.layers * (gate + 4 * expert)));
  EXPECT_EQ(done_, total_);
  EXPECT_EQ(loaded->bytes, total_);
}

// Llama-4's: inputs first, gates before ups, and names that may have a prefix.
class LoadInputsFirstTest : public LoadTogetherTest {
 protected:
  LoadInputsFirstTest() {
    llama_.family = "llama4_text";
    llama_.attention.norm = QueryKeyNorm::kTurnedHeads;
    llama_.moe.shared_intermediate = 24;
  }
  FileTensors Named(const std::string& prefix) const {
    FileTensors out;
    for (const auto& [name, tensor] : tensors_) {
      if (name.ends_with("bias") || name.ends_with("sinks")) continue;
      std::string own = prefix + name;
      if (const size_t at = own.find(".mlp."); at != own.npos) own.replace(at, 5, ".feed_forward.");
      out[own] = tensor;
    }
    for (int l = 0; l < llama_.layers; ++l) {
      const std::string shared =
          prefix + "model.layers." + std::to_string(l) + ".feed_forward.shared_expert.";
      const auto seed = static_cast<uint64_t>(900 + l);
      out[shared + "gate_proj.weight"] = RandomTensor(DType::kFloat32, {24, llama_.hidden}, seed);
      out[shared + "up_proj.weight"] = RandomTensor(DType::kFloat32, {24, llama_.hidden}, seed + 9);
      out[shared + "down_proj.weight"] = RandomTensor(DType::kFloat32, {llama_.hidden, 24}, seed);
    }
    return out;
  }

  ModelDescription llama_ = SmallModelDescription(DType::kFloat32);
};

TEST_F(LoadInputsFirstTest, ReadsItsExpertsWithAndWithoutThePrefix) {
  llama_.hidden = model_.hidden;
  llama_.moe.intermediate = model_.moe.intermediate;
  const int64_t h = llama_.hidden, width = llama_.moe.intermediate;
  for (const std::string prefix : {"", "language_model."}) {
    const FileTensors tensors = Named(prefix);
    const auto loaded = Load(tensors, llama_, 1);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    for (int l = 0; l < llama_.layers; ++l) {
      const std::string all = prefix + "model.layers." + std::to_string(l) + ".feed_forward.";
      const FileTensor& gate_up = tensors.at(all + "experts.gate_up_proj");
      const FileTensor& down = tensors.at(all + "experts.down_proj");
      const ExpertLayerWeights& layer = loaded->weights.layers[static_cast<size_t>(l)];
      ExpectSame(layer.gate, tensors.at(all + "router.weight"));
      EXPECT_EQ(layer.gate_bias.data, nullptr);
      for (int s = 0; s < 4; ++s) {
        const int64_t e = topology_.placement.at(l, topology_.placement.first_slot(Rank{1}) + s);
        const FfnTensors& ffn = *layer.slots[static_cast<size_t>(s)];
        EXPECT_EQ(ffn.gate_bias.data, nullptr);
        for (int64_t i = 0; i < width; ++i) {
          for (int64_t k = 0; k < h; ++k) {
            const int64_t row = (e * h + k) * 2 * width;
            ASSERT_EQ(At(ffn.gate, i * h + k), At(gate_up, row + i)) << i << ' ' << k;
            ASSERT_EQ(At(ffn.up, i * h + k), At(gate_up, row + width + i)) << i << ' ' << k;
            ASSERT_EQ(At(ffn.down, k * width + i), At(down, (e * width + i) * h + k));
          }
        }
      }
    }
    // Gates and four experts a layer, and no more.
    const int64_t numbers = llama_.layers * (llama_.moe.experts * h + 4 * 3 * h * width);
    EXPECT_EQ(loaded->bytes, static_cast<uint64_t>(4 * numbers));
    const auto attention = LoadAttention(folder_.path(), llama_, nullptr, {});
    ASSERT_TRUE(attention.ok()) << attention.status().ToString();
    ExpectSame(attention->weights.embedding, tensors.at(prefix + "model.embed_tokens.weight"));
    ExpectSame(attention->weights.layers[1].ffn.up,
               tensors.at(prefix + "model.layers.1.feed_forward.shared_expert.up_proj.weight"));
    EXPECT_EQ(attention->weights.layers[1].q_norm.data, nullptr);
  }
}

TEST_F(LoadInputsFirstTest, NamesATensorOfAnotherShapeWithItsPrefix) {
  llama_.hidden = model_.hidden;
  llama_.moe.intermediate = model_.moe.intermediate;
  FileTensors tensors = Named("language_model.");
  const std::string down = "language_model.model.layers.0.feed_forward.experts.down_proj";
  tensors.at(down).shape = {7, 64, 96};
  EXPECT_TRUE(Contains(Load(tensors, llama_).status().message(),
                       "tensor '" + down + "': shape [7,64,96], config.json asks for [7,96,64]"));
}

TEST_F(LoadTogetherTest, ReadsAttentionWithItsBiasesAndSinks) {
  folder_.Write("model.safetensors", SafetensorsBytes(tensors_));
  const auto loaded = LoadAttention(folder_.path(), Model(DType::kBFloat16), nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const AttentionLayerWeights& layer = loaded->weights.layers[1];
  EXPECT_EQ(layer.o_bias.dtype, DType::kBFloat16);
  EXPECT_EQ(static_cast<const uint16_t*>(layer.o_bias.data)[3],
            ToBFloat16(At(tensors_.at("model.layers.1.self_attn.o_proj.bias"), 3)));
  EXPECT_EQ(layer.sinks.dtype, DType::kFloat32);
  ExpectSame(layer.sinks, tensors_.at("model.layers.1.self_attn.sinks"));
}

// In mxfp4, an expert has the numbers of the same checkpoint written out.
TEST_F(LoadTogetherTest, ReadsMxfp4) {
  const FileTensors packed = InMxfp4(tensors_, Mxfp4Layout::kGptOss, IsExperts);
  const auto plain = Load(OutOfMxfp4(packed, Mxfp4Layout::kGptOss), Model(DType::kFloat32));
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  ModelDescription model = Model(DType::kBFloat16);
  model.mxfp4 = Mxfp4Layout::kGptOss;
  const auto loaded = Load(packed, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(done_, total_);
  for (int l = 0; l < model.layers; ++l) {
    for (size_t s = 0; s < 3; ++s) {
      const FfnTensors& have = *loaded->weights.layers[static_cast<size_t>(l)].slots[s];
      const FfnTensors& want = *plain->weights.layers[static_cast<size_t>(l)].slots[s];
      for (const auto& [packed_matrix, matrix] :
           {std::pair{&have.gate, &want.gate}, {&have.up, &want.up}, {&have.down, &want.down}}) {
        for (int64_t i = 0; i < int64_t{model.hidden} * model.moe.intermediate; ++i) {
          ASSERT_EQ(Mxfp4Weight(static_cast<const uint8_t*>(packed_matrix->data),
                                static_cast<const uint8_t*>(packed_matrix->scales), i),
                    At(*matrix, i))
              << l << ' ' << s << ' ' << i;
        }
      }
      EXPECT_EQ(At(have.up_bias, 5), At(want.up_bias, 5));
    }
  }
}

TEST_F(LoadTogetherTest, SharesTheExpertsThatAreKnown) {
  const auto first = Load(tensors_, model_);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  done_ = total_ = 0;
  const auto again = Load(tensors_, model_, 0, &*first);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(total_, 0u);
  EXPECT_EQ(again->weights.layers[1].slots[2]->up.data, first->weights.layers[1].slots[2]->up.data);
  EXPECT_EQ(again->bytes, first->bytes);
}

TEST_F(LoadTogetherTest, NamesWhatIsWrong) {
  const std::string all = "model.layers.1.mlp.experts.";
  const size_t e = topology_.placement.at(1, topology_.placement.first_slot(Rank{0}));
  const auto says = [&](FileTensors tensors, const std::function<void(FileTensors&)>& spoil,
                        Mxfp4Layout layout, const std::string& part) {
    spoil(tensors);
    ModelDescription model = model_;
    model.mxfp4 = layout;
    const Status status = Load(tensors, model).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(status.message(), part)) << status.ToString() << "\n, wanted " << part;
  };
  const auto in_plain = [&](const std::function<void(FileTensors&)>& spoil,
                            const std::string& part) {
    says(tensors_, spoil, Mxfp4Layout::kNone, part);
  };
  in_plain([&](FileTensors& t) { t.erase(all + "down_proj_bias"); },
           "no tensor '" + all + "down_proj_bias'");
  in_plain(
      [&](FileTensors& t) {
        t.at(all + "gate_up_proj").shape = {7, 192, 64};
      },
      "tensor '" + all + "gate_up_proj': shape [7,192,64], config.json asks for [7,64,192]");
  in_plain(
      [&](FileTensors& t) {
        const float bad = NAN;
        std::memcpy(t.at(all + "gate_up_proj").bytes.data() + 4 * (e * 64 * 192 + 3), &bad, 4);
      },
      "tensor '" + all + "gate_up_proj (expert " + std::to_string(e) +
          ", up)' holds a NaN or an infinity");
  const FileTensors packed = InMxfp4(tensors_, Mxfp4Layout::kGptOss, IsExperts);
  const auto in_mxfp4 = [&](const std::function<void(FileTensors&)>& spoil,
                            const std::string& part) {
    says(packed, spoil, Mxfp4Layout::kGptOss, part);
  };
  in_mxfp4([&](FileTensors& t) { t.erase(all + "down_proj_scales"); },
           "no tensor '" + all + "down_proj_scales'");
  in_mxfp4(
      [&](FileTensors& t) {
        t.at(all + "down_proj_blocks").shape = {7, 64, 48};
      },
      "_blocks': shape [7,64,48], config.json asks for [7,64,3,16]");
  // Row 5 of gates and ups is up 2.
  in_mxfp4(
      [&](FileTensors& t) {
        t.at(all + "gate_up_proj_scales").bytes[(e * 192 + 5) * 2 + 1] = '\xff';
      },
      "tensor '" + all + "gate_up_proj_scales' has 255 at [2,1], which is NaN");
  says(
      packed, [](FileTensors&) {}, Mxfp4Layout::kNone,
      "gate_up_proj_blocks' and no 'model.layers.0.mlp.experts.gate_up_proj': it is quantized");
}

TEST(LoadWeights, CastsEveryFormatToEveryOther) {
  for (const DType stored : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const FileTensors tensors = MixtralTensors(Model(stored), 2);
    const TempFolder folder;
    folder.Write("model.safetensors", SafetensorsBytes(tensors));
    for (const DType computed : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const auto loaded = LoadAttention(folder.path(), Model(computed), nullptr, {});
      ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
      const Tensor& q = loaded->weights.layers[1].q;
      EXPECT_EQ(q.dtype, computed);
      const std::string& bytes = tensors.at("model.layers.1.self_attn.q_proj.weight").bytes;
      const size_t count = bytes.size() / static_cast<size_t>(SizeOf(stored));
      const auto value = [](const void* from, DType dtype, size_t i) {
        if (dtype == DType::kFloat32) {
          float f;
          std::memcpy(&f, static_cast<const char*>(from) + i * 4, 4);
          return f;
        }
        uint16_t bits;
        std::memcpy(&bits, static_cast<const char*>(from) + i * 2, 2);
        return dtype == DType::kBFloat16 ? FromBFloat16(bits) : FromFloat16(bits);
      };
      for (size_t i = 0; i < count; ++i) {
        float want = value(bytes.data(), stored, i);
        if (computed == DType::kBFloat16) want = FromBFloat16(ToBFloat16(want));
        if (computed == DType::kFloat16) want = FromFloat16(ToFloat16(want));
        ASSERT_EQ(value(q.data, computed, i), want) << ToString(stored) << ToString(computed);
      }
      EXPECT_EQ(HoldsCasts(*loaded), stored != computed) << "a matching format is used in place";
    }
  }
}

TEST(LoadWeights, WhatIsKnownIsSharedAndOutlivesWhereItCameFrom) {
  const ModelDescription model = Model(DType::kBFloat16);  // cast: the file holds float32
  const FileTensors tensors = MixtralTensors(Model(), 1);
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const int experts = model.moe.experts;
  const auto load = [&](int slots, uint64_t& read, const Loaded<ExpertWeights>* known) {
    Placement placement;
    placement.layers = model.layers;
    placement.slots_of_instance = {slots};
    for (int i = 0; i < model.layers * slots; ++i) {
      placement.expert_of.push_back(static_cast<uint16_t>(i % slots));
    }
    return LoadExperts(
        folder.path(), model, placement, Rank{0}, [&](uint64_t done, uint64_t) { read = done; }, {},
        known);
  };
  uint64_t read_few = 0, read_all = 0, read_rest = 0;
  auto few = load(experts - 2, read_few, nullptr);
  const auto all = load(experts, read_all, nullptr);
  const auto more = load(experts, read_rest, &*few);
  ASSERT_TRUE(few.ok() && all.ok() && more.ok());
  EXPECT_EQ(read_few + read_rest, read_all) << "nothing is read twice";
  EXPECT_EQ(more->bytes, all->bytes);
  const auto& shared = more->weights.layers[0];
  EXPECT_EQ(shared.gate.data, few->weights.layers[0].gate.data);
  few = Internal("it has gone");
  for (size_t l = 0; l < all->weights.layers.size(); ++l) {
    const ExpertLayerWeights &want = all->weights.layers[l], &got = more->weights.layers[l];
    for (size_t slot = 0; slot < want.slots.size(); ++slot) {
      const size_t bytes =
          static_cast<size_t>(model.moe.intermediate) * static_cast<size_t>(model.hidden) * 2;
      EXPECT_EQ(std::memcmp(got.slots[slot]->up.data, want.slots[slot]->up.data, bytes), 0);
    }
  }
}

TEST(LoadWeights, TiedEmbeddingsNeedNoHead) {
  ModelDescription model = Model();
  model.tied_embeddings = true;
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(MixtralTensors(model, 1)));
  const auto loaded = LoadAttention(folder.path(), model, nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->weights.lm_head.data, loaded->weights.embedding.data);
  model.tied_embeddings = false;
  EXPECT_TRUE(Contains(LoadAll(folder.path(), model).message(), "lm_head.weight"));
}

TEST(LoadWeights, UnalignedDataIsCopied) {
  const FileTensors tensors = MixtralTensors(Model(), 1);
  std::string bytes = SafetensorsBytes(tensors);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string odd = SafetensorsBytes(bytes.substr(8, length) + " ", bytes.substr(8 + length));
  const TempFolder folder;
  folder.Write("model.safetensors", odd);
  const auto loaded = LoadAttention(folder.path(), Model(), nullptr, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(HoldsCasts(*loaded));
  ExpectSame(loaded->weights.layers[0].k, tensors.at("model.layers.0.self_attn.k_proj.weight"));
}

TEST(LoadWeights, TellsItsProgressToTheEnd) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(MixtralTensors(Model(), 1)));
  uint64_t last = 0, total = 0;
  const auto loaded = LoadAttention(folder.path(), Model(),
                                    [&](uint64_t done, uint64_t of) {
                                      EXPECT_GT(done, last);
                                      last = done;
                                      total = of;
                                    },
                                    {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, loaded->bytes);
}

TEST(LoadWeights, StopsWhenAsked) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(MixtralTensors(Model(), 1)));
  std::stop_source source;
  const auto loaded = LoadAttention(
      folder.path(), Model(), [&](uint64_t, uint64_t) { source.request_stop(); },
      source.get_token());
  EXPECT_EQ(loaded.status().code(), StatusCode::kCancelled);
}

// Bad checkpoints: each gives one error that names the file and what is wrong.
struct Bad {
  std::string name;
  std::function<void(FileTensors&)> spoil;
  std::vector<std::string> says;
};
void PrintTo(const Bad& bad, std::ostream* out) {
  *out << bad.name;
}

const std::string kQ = "model.layers.1.self_attn.q_proj.weight";
const std::string kW2 = "model.layers.1.block_sparse_moe.experts.6.w2.weight";

void Put(FileTensor& tensor, size_t index, float value) {
  std::memcpy(tensor.bytes.data() + index * 4, &value, 4);
}

class BadCheckpointTest : public testing::TestWithParam<Bad> {};

TEST_P(BadCheckpointTest, IsRefusedByNameSingleAndSharded) {
  FileTensors tensors = MixtralTensors(Model(), 1);
  GetParam().spoil(tensors);
  for (const bool sharded : {false, true}) {
    const TempFolder folder;
    if (sharded) {
      WriteSharded(folder, tensors, 2);
    } else {
      folder.Write("model.safetensors", SafetensorsBytes(tensors));
    }
    const Status status = LoadAll(folder.path(), Model());
    ASSERT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_TRUE(Contains(status.message(), folder.path() + "/model"));
    for (const std::string& part : GetParam().says) {
      EXPECT_TRUE(Contains(status.message(), part));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadCheckpointTest,
    testing::Values(
        Bad{"MissingAttentionTensor", [](FileTensors& t) { t.erase(kQ); }, {kQ, "config.json"}},
        Bad{"MissingExpertTensor", [](FileTensors& t) { t.erase(kW2); }, {kW2}},
        Bad{"WrongShape",
            [](FileTensors& t) {
              t[kQ] = RandomTensor(DType::kFloat32, {40, 72}, 1);
            },
            {kQ, "[40,72]", "[72,40]", "config.json"}},
        Bad{"WrongRank", [](FileTensors& t) { t[kQ].shape = {72 * 40}; }, {kQ, "[2880]"}},
        Bad{"Integers",
            [](FileTensors& t) {
              t[kQ] = {"I64", {72, 40}, std::string(72 * 40 * 8, '\0')};
            },
            {kQ, "I64", "F32"}},
        Bad{"Float8",
            [](FileTensors& t) {
              t[kW2] = {"F8_E4M3", {40, 20}, std::string(40 * 20, '\0')};
            },
            {kW2, "F8_E4M3"}},
        Bad{"NaN", [](FileTensors& t) { Put(t[kQ], 2879, NAN); }, {kQ, "NaN"}},
        Bad{"Infinity", [](FileTensors& t) { Put(t[kW2], 0, -INFINITY); }, {kW2, "infinity"}},
        Bad{"NaNInTheNorm",
            [](FileTensors& t) { Put(t["model.norm.weight"], 3, NAN); },
            {"model.norm.weight"}}),
    [](const auto& info) { return info.param.name; });

TEST(BadCheckpoint, AMissingShardIsNamed) {
  const TempFolder folder;
  WriteSharded(folder, MixtralTensors(Model(), 1), 3);
  std::filesystem::remove(folder.path() + "/model-00002-of-00003.safetensors");
  const Status status = LoadAll(folder.path(), Model());
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Contains(status.message(), "model-00002-of-00003.safetensors"));
  EXPECT_TRUE(Contains(status.message(), "shards"));
}

TEST(BadCheckpoint, ATruncatedShardIsNamed) {
  const TempFolder folder;
  WriteSharded(folder, MixtralTensors(Model(), 1), 2);
  const std::string shard = folder.path() + "/model-00001-of-00002.safetensors";
  for (const uint64_t size :
       {std::filesystem::file_size(shard) - 1, uint64_t{1000}, uint64_t{5}, uint64_t{0}}) {
    std::filesystem::resize_file(shard, size);
    const Status status = LoadAll(folder.path(), Model());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << size;
    EXPECT_TRUE(Contains(status.message(), shard));
  }
}

TEST(BadCheckpoint, AShardWithoutWhatTheIndexSaysIsNamed) {
  const TempFolder folder;
  const FileTensors tensors = MixtralTensors(Model(), 1);
  WriteSharded(folder, tensors, 1);
  FileTensors fewer = tensors;
  fewer.erase(kQ);
  folder.Write("model-00001-of-00001.safetensors", SafetensorsBytes(fewer));
  EXPECT_TRUE(Contains(LoadAll(folder.path(), Model()).message(), kQ));
}

TEST(BadCheckpoint, ACastThatOverflowsIsNamed) {
  FileTensors tensors = MixtralTensors(Model(), 1);
  Put(tensors[kQ], 5, 1e6f);
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const Status status = LoadAll(folder.path(), Model(DType::kFloat16));
  EXPECT_TRUE(Contains(status.message(), kQ));
  EXPECT_TRUE(Contains(status.message(), "as Float16"));
}

TEST(BadCheckpoint, AnUnknownFamilyIsNamed) {
  ModelDescription model = Model();
  model.family = "gpt";
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(MixtralTensors(Model(), 1)));
  EXPECT_TRUE(Contains(LoadAll(folder.path(), model).message(), "gpt"));
}

}  // namespace
}  // namespace janus::dataplane
