#include "tests/support/mxfp4_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/model/config.h"

namespace janus::dataplane {
namespace {

using nlohmann::json;

float FloatAt(const std::string& bytes, size_t i) {
  float value = 0.0f;
  std::memcpy(&value, bytes.data() + 4 * i, sizeof value);
  return value;
}

// The least power of two with which no value exceeds the largest number.
uint8_t ScaleFor(const std::string& bytes, size_t first) {
  float largest = 0.0f;
  for (int64_t i = 0; i < kMxBlock; ++i) {
    largest = std::max(largest, std::abs(FloatAt(bytes, first + static_cast<size_t>(i))));
  }
  return static_cast<uint8_t>(127 + (largest > 0 ? std::ceil(std::log2(largest / 6.0f)) : -127));
}

std::string PackedName(const std::string& name, Mxfp4Layout layout) {
  return layout == Mxfp4Layout::kCompressedTensors ? name + "_packed" : name;
}

// `tensor` extended to `shape` by repeating its values.
FileTensor Repeated(const FileTensor& tensor, const std::vector<int64_t>& shape) {
  FileTensor out{tensor.dtype, shape, ""};
  const int64_t columns = shape.back();
  const int64_t rows = shape.size() == 1 ? 1 : shape[0];
  const int64_t old_columns = tensor.shape.back();
  const int64_t old_rows = tensor.shape.size() == 1 ? 1 : tensor.shape[0];
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t from = i / columns % old_rows * old_columns + i % columns % old_columns;
    out.bytes.append(tensor.bytes, static_cast<size_t>(4 * from), 4);
  }
  return out;
}

// Matrices of routed experts.
bool IsRoutedExpert(const std::string& name) {
  return name.find(".experts.") != std::string::npos && !name.ends_with("_bias");
}

int64_t WholeBlocks(int64_t extent) {
  return (extent + kMxBlock - 1) / kMxBlock * kMxBlock;
}

// The shape of a tensor in the model with whole blocks.
std::vector<int64_t> RoundedShape(const std::string& name, const FileTensor& tensor,
                                  const ModelDescription& rounded) {
  const int64_t hidden = rounded.hidden;
  const bool is_routed = IsRoutedExpert(name);
  const bool is_shared = name.find(".shared_expert") != std::string::npos &&
                         name.find(".shared_expert_gate") == std::string::npos;
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  std::vector<int64_t> shape = tensor.shape;
  if (shape.size() == 1) {
    const bool is_norm_of_rows = ends("input_layernorm.weight") || ends("model.norm.weight") ||
                                 ends("post_attention_layernorm.weight");
    return {is_norm_of_rows ? hidden : shape[0]};
  }
  const int64_t width = is_routed   ? rounded.moe.intermediate
                        : is_shared ? rounded.moe.shared_intermediate
                                    : 0;
  if (ends("down_proj.weight") || ends(".w2.weight")) {
    return {hidden, width > 0 ? width : shape[1]};
  }
  if (ends("o_proj.weight")) return {hidden, shape[1]};
  if (ends("q_b_proj.weight") || ends("kv_b_proj.weight")) return shape;
  return {width > 0 ? width : shape[0], hidden};
}

// The matrices [n, a, b] of a tensor, each as [b, a], under the shape [n, b, a].
FileTensor Transposed(const FileTensor& tensor) {
  const int64_t n = tensor.shape[0], a = tensor.shape[1], b = tensor.shape[2];
  const size_t size = tensor.bytes.size() / static_cast<size_t>(n * a * b);
  FileTensor out{tensor.dtype, {n, b, a}, ""};
  for (int64_t i = 0; i < n * a * b; ++i) {
    const int64_t from = i / (a * b) * (a * b) + i % a * b + i / a % b;
    out.bytes.append(tensor.bytes, static_cast<size_t>(from) * size, size);
  }
  return out;
}

// Where all experts of a layer lie together, with inputs first.
FileTensors InMxfp4Together(FileTensors tensors,
                            const std::function<bool(const std::string& name)>& is_chosen) {
  FileTensors out;
  for (auto& [name, tensor] : tensors) {
    if (!is_chosen(name)) {
      out[name] = std::move(tensor);
      continue;
    }
    FileTensor whole = Transposed(tensor);
    const std::vector<int64_t> shape = whole.shape;
    whole.shape = {shape[0] * shape[1], shape[2]};
    FileTensors packed =
        InMxfp4({{"x", std::move(whole)}}, Mxfp4Layout::kQuark, [](const auto&) { return true; });
    packed.at("x").shape = {shape[0], shape[1], shape[2] / kMxBlock, kMxBlock / 2};
    packed.at("x_scale").shape = {shape[0], shape[1], shape[2] / kMxBlock};
    out[name + "_blocks"] = std::move(packed.at("x"));
    out[name + "_scales"] = std::move(packed.at("x_scale"));
  }
  return out;
}

FileTensors OutOfMxfp4Together(FileTensors tensors) {
  FileTensors out;
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with("_scales")) continue;
    if (!name.ends_with("_blocks")) {
      out[name] = std::move(tensor);
      continue;
    }
    const std::string whole = name.substr(0, name.size() - 7);
    FileTensor& scales = tensors.at(whole + "_scales");
    const std::vector<int64_t> shape = scales.shape;
    tensor.shape = {shape[0] * shape[1], shape[2] * kMxBlock / 2};
    scales.shape = {shape[0] * shape[1], shape[2]};
    FileTensor plain =
        OutOfMxfp4({{"x", tensor}, {"x_scale", scales}}, Mxfp4Layout::kQuark).at("x");
    plain.shape = {shape[0], shape[1], shape[2] * kMxBlock};
    out[whole] = Transposed(plain);
  }
  return out;
}

}  // namespace

FileTensors InMxfp4(FileTensors tensors, Mxfp4Layout layout,
                    const std::function<bool(const std::string& name)>& is_chosen) {
  if (layout == Mxfp4Layout::kGptOss) return InMxfp4Together(std::move(tensors), is_chosen);
  FileTensors out;
  for (auto& [name, tensor] : tensors) {
    if (!is_chosen(name)) {
      out[name] = std::move(tensor);
      continue;
    }
    const int64_t rows = tensor.shape[0];
    const int64_t columns = tensor.shape[1];
    FileTensor packed{"U8", {rows, columns / 2}, ""};
    FileTensor scales{"U8", {rows, columns / kMxBlock}, ""};
    packed.bytes.resize(static_cast<size_t>(rows * columns / 2));
    for (size_t i = 0; i < static_cast<size_t>(rows * columns); ++i) {
      if (i % kMxBlock == 0) scales.bytes += static_cast<char>(ScaleFor(tensor.bytes, i));
      const float scale = FromE8M0(static_cast<uint8_t>(scales.bytes.back()));
      const uint8_t code = ToFloat4E2M1(FloatAt(tensor.bytes, i) / scale);
      packed.bytes[i / 2] =
          static_cast<char>(static_cast<uint8_t>(packed.bytes[i / 2]) | code << (i % 2 * 4));
    }
    out[PackedName(name, layout)] = std::move(packed);
    out[name + "_scale"] = std::move(scales);
  }
  return out;
}

FileTensors OutOfMxfp4(FileTensors tensors, Mxfp4Layout layout) {
  if (layout == Mxfp4Layout::kGptOss) return OutOfMxfp4Together(std::move(tensors));
  FileTensors out;
  for (const auto& [scales_name, scales] : tensors) {
    if (!scales_name.ends_with("_scale")) continue;
    const std::string name = scales_name.substr(0, scales_name.size() - 6);
    const FileTensor& packed = tensors.at(PackedName(name, layout));
    FileTensor& plain = out[name] = {"BF16", {packed.shape[0], packed.shape[1] * 2}, ""};
    for (size_t i = 0; i < 2 * packed.bytes.size(); ++i) {
      const uint16_t bits = ToBFloat16(Mxfp4Weight(
          reinterpret_cast<const uint8_t*>(packed.bytes.data()),
          reinterpret_cast<const uint8_t*>(scales.bytes.data()), static_cast<int64_t>(i)));
      plain.bytes.append(reinterpret_cast<const char*>(&bits), 2);
    }
  }
  for (auto& [name, tensor] : tensors) {
    if (tensor.dtype != "U8") out[name] = std::move(tensor);
  }
  return out;
}

std::string Mxfp4Config(Mxfp4Layout layout) {
  if (layout == Mxfp4Layout::kGptOss) {
    return R"({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn",
      "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})";
  }
  if (layout == Mxfp4Layout::kCompressedTensors) {
    return R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
      "quantization_status": "compressed", "kv_cache_scheme": null, "sparsity_config": {},
      "transform_config": {}, "ignore": ["lm_head", "re:.*self_attn.*", "re:.*gate$"],
      "config_groups": {"group_0": {"targets": ["Linear"], "format": "mxfp4-pack-quantized",
        "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32,
          "symmetric": true, "dynamic": false, "scale_dtype": "torch.uint8"},
        "input_activations": null, "output_activations": null}}})";
  }
  return R"({"quant_method": "quark", "exclude": ["lm_head", "*self_attn*", "*mlp.gate"],
    "export": {"pack_method": "reorder", "weight_format": "real_quantized"},
    "layer_quant_config": {}, "layer_type_quant_config": {}, "kv_cache_quant_config": {},
    "global_quant_config": {"bias": null, "output_tensors": null,
      "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "ch_axis": -1,
        "is_dynamic": false, "scale_format": "e8m0"},
      "input_tensors": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32,
        "is_dynamic": true, "scale_format": "e8m0"}}})";
}

Mxfp4Golden::Mxfp4Golden(const std::string& family, Mxfp4Layout layout) {
  const Golden golden = ReadGolden(family);
  prompt = *std::find_if(golden.cases.begin(), golden.cases.end(), [](const GoldenCase& c) {
    return c.config == "config.json" && c.prompt.size() > 8 && c.prompt.size() < 100;
  });
  json config = json::parse(ReadText(golden.folder + "/config.json"));
  config["dtype"] = "bfloat16";
  // Heads stay as they are, even where their size follows from the hidden size.
  config["head_dim"] = ParseModelConfig(config.dump())->attention.head_dim;
  config["hidden_size"] = WholeBlocks(config["hidden_size"].get<int64_t>());
  const char* width =
      config.contains("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size";
  config[width] = WholeBlocks(config[width].get<int64_t>());
  plain_model = *ParseModelConfig(config.dump());
  config["quantization_config"] = json::parse(Mxfp4Config(layout));
  packed_model = *ParseModelConfig(config.dump());
  FileTensors tensors = ReadInFloat32(golden.folder);
  for (auto& [name, tensor] : tensors) {
    if (layout == Mxfp4Layout::kGptOss) continue;  // its sizes are whole blocks
    tensor = Repeated(tensor, RoundedShape(name, tensor, plain_model));
  }
  const FileTensors in_mxfp4 = InMxfp4(tensors, layout, IsRoutedExpert);
  unquantized.Write("model.safetensors", SafetensorsBytes(tensors));
  packed.Write("model.safetensors", SafetensorsBytes(in_mxfp4));
  written_out.Write("model.safetensors", SafetensorsBytes(OutOfMxfp4(in_mxfp4, layout)));
}

}  // namespace janus::dataplane
