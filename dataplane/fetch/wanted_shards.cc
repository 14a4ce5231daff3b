#include "dataplane/fetch/wanted_shards.h"

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "common/read_file.h"
#include "dataplane/model/tensor_names.h"
#include "hub/selection.h"

namespace janus::dataplane {
namespace {

using Json = nlohmann::json;

// The layer of a tensor, and the rest of its name; -1: it lies outside of the layers.
struct InLayer {
  int layer = -1;
  std::string_view rest;
};

std::string_view WithoutPrefix(std::string_view tensor, const TensorNames& names) {
  if (tensor.starts_with(names.optional_prefix)) tensor.remove_prefix(names.optional_prefix.size());
  return tensor;
}

InLayer Split(std::string_view tensor, const TensorNames& names) {
  tensor = WithoutPrefix(tensor, names);
  if (!tensor.starts_with(names.layers)) return {};
  tensor.remove_prefix(names.layers.size());
  if (!tensor.starts_with('.')) return {};
  tensor.remove_prefix(1);
  InLayer out;
  const char* const end = tensor.data() + tensor.size();
  const auto read = std::from_chars(tensor.data(), end, out.layer);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != '.') return {};
  out.rest = tensor.substr(static_cast<size_t>(read.ptr - tensor.data()) + 1);
  return out;
}

bool IsBelow(std::string_view name, std::string_view module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

// Whether any role reads it.
bool IsRead(std::string_view tensor, const TensorNames& names, const ModelDescription& model) {
  const int layer = Split(tensor, names).layer;
  if (layer >= 0) return layer < model.layers;
  const std::string_view name = WithoutPrefix(tensor, names);
  return IsBelow(name, names.embedding) || IsBelow(name, names.final_norm) ||
         IsBelow(name, names.lm_head);
}

}  // namespace

bool IsReadBy(Role role, std::string_view tensor, const ModelDescription& model) {
  const bool is_attention = role == Role::kAttention;
  const TensorNames* const names = FindTensorNames(model.family);
  if (names == nullptr) return is_attention;
  const auto [layer, rest] = Split(tensor, *names);
  if (layer < 0 || layer >= model.layers || model.IsDense(layer)) return is_attention;
  if (IsBelow(rest, names->moe_gate) || rest == names->moe_gate_bias) return true;
  return IsBelow(rest, names->experts) != is_attention;
}

Result<std::set<std::string>> WantedShards(const std::string& folder, const ModelDescription& model,
                                           FetchFor reader) {
  if (reader == FetchFor::kGateway) return std::set<std::string>();
  const std::string path = folder + "/" + std::string(hub::kIndexFile);
  Result<std::string> text = ReadFile(path, hub::kMaxSmallFileBytes);
  if (text.status().code() == StatusCode::kNotFound) {
    return std::set<std::string>{std::string(hub::kOneWeightsFile)};
  }
  JANUS_RETURN_IF_ERROR(text.status());
  Result<std::set<std::string>> out = ShardsInIndex(*text, model, reader);
  if (!out.ok()) return std::move(out).status().Annotate(path);
  return out;
}

Result<std::set<std::string>> ShardsInIndex(std::string_view json, const ModelDescription& model,
                                            FetchFor reader) {
  const TensorNames* const names = FindTensorNames(model.family);
  if (names == nullptr) {
    return Unimplemented("no tensor names for model family '" + model.family + "'");
  }
  JANUS_RETURN_IF_ERROR(hub::ParseShardIndex(json).status());
  std::set<std::string> out;
  if (reader == FetchFor::kGateway) return out;
  const Json index = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!IsRead(tensor, *names, model)) continue;
    const Role role = reader == FetchFor::kExperts ? Role::kExperts : Role::kAttention;
    if (reader != FetchFor::kAll && !IsReadBy(role, tensor, model)) continue;
    out.insert(file.get<std::string>());
  }
  if (out.empty()) {
    return InvalidArgument(std::string("names no tensor of the ") +
                           (reader == FetchFor::kExperts     ? "experts"
                            : reader == FetchFor::kAttention ? "attention layers"
                                                             : "model") +
                           "; is config.json of the same model?");
  }
  return out;
}

}  // namespace janus::dataplane
