#include "tests/support/checkpoint_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

using nlohmann::json;

std::string NameOf(DType dtype) {
  if (dtype == DType::kFloat32) return "F32";
  return dtype == DType::kBFloat16 ? "BF16" : "F16";
}

}  // namespace

std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

std::string SafetensorsBytes(const FileTensors& tensors) {
  json header = json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return SafetensorsBytes(text, data);
}

FileTensor RandomTensor(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  Random random(seed);
  FileTensor tensor{NameOf(dtype), std::move(shape), ""};
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  tensor.bytes.resize(static_cast<size_t>(count * SizeOf(dtype)));
  char* to = tensor.bytes.data();
  for (int64_t i = 0; i < count; ++i) {
    const float value = random.Signed();
    const uint16_t bits = dtype == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
    if (dtype == DType::kFloat32) {
      std::memcpy(to + i * 4, &value, 4);
    } else {
      std::memcpy(to + i * 2, &bits, 2);
    }
  }
  return tensor;
}

FileTensors MixtralTensors(const ModelDescription& model, uint64_t seed) {
  FileTensors tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors[name] = RandomTensor(model.dtype, std::move(shape), MixSeed(seed, tensors.size()));
  };
  const int64_t h = model.hidden, i = model.moe.intermediate;
  const int64_t q = int64_t{model.attention.heads} * model.attention.head_dim;
  const int64_t kv = int64_t{model.attention.kv_heads} * model.attention.head_dim;
  add("model.embed_tokens.weight", {model.vocab, h});
  add("model.norm.weight", {h});
  if (!model.tied_embeddings) add("lm_head.weight", {model.vocab, h});
  for (int l = 0; l < model.layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    const std::string moe = layer + "block_sparse_moe.";
    add(layer + "input_layernorm.weight", {h});
    add(layer + "self_attn.q_proj.weight", {q, h});
    add(layer + "self_attn.k_proj.weight", {kv, h});
    add(layer + "self_attn.v_proj.weight", {kv, h});
    add(layer + "self_attn.o_proj.weight", {h, q});
    add(layer + "post_attention_layernorm.weight", {h});
    add(moe + "gate.weight", {model.moe.experts, h});
    for (int e = 0; e < model.moe.experts; ++e) {
      const std::string expert = moe + "experts." + std::to_string(e) + ".";
      add(expert + "w1.weight", {i, h});
      add(expert + "w3.weight", {i, h});
      add(expert + "w2.weight", {h, i});
    }
  }
  return tensors;
}

namespace {

constexpr char kScales[] = "_scale_inv";

float* Floats(FileTensor& tensor) {
  return reinterpret_cast<float*>(tensor.bytes.data());
}

// Calls visit(element, index of its scale) for every element of a matrix.
template <class Visit>
void ForBlocks(const FileTensor& matrix, const Visit& visit) {
  const int64_t columns = matrix.shape[1];
  for (int64_t i = 0; i < matrix.shape[0] * columns; ++i) {
    visit(static_cast<size_t>(i),
          static_cast<size_t>(i / columns / kScaleBlock * ScaleBlocks(columns) +
                              i % columns / kScaleBlock));
  }
}

}  // namespace

FileTensors InFp8(FileTensors tensors,
                  const std::function<bool(const std::string& name)>& is_chosen) {
  FileTensors scales;
  for (auto& [name, tensor] : tensors) {
    if (!is_chosen(name)) continue;
    const size_t count = tensor.bytes.size() / sizeof(float);
    FileTensor scale{"F32", {ScaleBlocks(tensor.shape[0]), ScaleBlocks(tensor.shape[1])}, ""};
    scale.bytes.resize(static_cast<size_t>(scale.shape[0] * scale.shape[1]) * sizeof(float));
    const float* const values = Floats(tensor);
    ForBlocks(tensor, [&](size_t i, size_t s) {
      Floats(scale)[s] = std::max(Floats(scale)[s], std::abs(values[i]) / 448.0f);
    });
    std::string eight(count, '\0');
    ForBlocks(tensor, [&](size_t i, size_t s) {
      eight[i] = static_cast<char>(ToFloat8E4M3(values[i] / Floats(scale)[s]));
    });
    tensor.dtype = "F8_E4M3";
    tensor.bytes = std::move(eight);
    scales[name + kScales] = std::move(scale);
  }
  tensors.merge(scales);
  return tensors;
}

FileTensors OutOfFp8(FileTensors tensors) {
  for (auto& [name, tensor] : tensors) {
    if (tensor.dtype != "F8_E4M3") continue;
    const FileTensor eight = std::move(tensor);
    FileTensor& scale = tensors.at(name + kScales);
    tensor = {"F32", eight.shape, std::string(eight.bytes.size() * sizeof(float), '\0')};
    ForBlocks(eight, [&](size_t i, size_t s) {
      Floats(tensor)[i] = FromFloat8E4M3(static_cast<uint8_t>(eight.bytes[i])) * Floats(scale)[s];
    });
  }
  std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with(kScales); });
  return tensors;
}

void WriteSharded(const TempFolder& folder, const FileTensors& tensors, int shards) {
  json weight_map = json::object();
  std::vector<FileTensors> files(static_cast<size_t>(shards));
  size_t at = 0;
  const auto name_of = [&](size_t shard) {
    return "model-0000" + std::to_string(shard + 1) + "-of-0000" + std::to_string(shards) +
           ".safetensors";
  };
  for (const auto& [name, tensor] : tensors) {
    const size_t shard = at++ % files.size();
    files[shard][name] = tensor;
    weight_map[name] = name_of(shard);
  }
  for (size_t shard = 0; shard < files.size(); ++shard) {
    folder.Write(name_of(shard), SafetensorsBytes(files[shard]));
  }
  folder.Write("model.safetensors.index.json",
               json{{"metadata", json::object()}, {"weight_map", weight_map}}.dump());
}

}  // namespace janus::dataplane
