#include "common/model/config.h"

#include <filesystem>

#include "common/model/family.h"
#include "common/model/neighbours.h"
#include "common/read_file.h"

namespace janus {
namespace {

// A family of Mixture-of-Experts models that is not supported, and why.
struct KnownGap {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view missing;
};
constexpr std::string_view kDeltaRule =
    "layers with a gated delta rule in place of attention are not supported";
constexpr std::string_view kSparseAttention =
    "attention to keys that an indexer chooses (DSA) is not supported";
constexpr std::string_view kPhi =
    "layer norms with biases and SparseMixer's choice of experts are not supported";
constexpr std::string_view kGrok =
    "soft-capped attention, norms behind attention and FFN, and GELU experts are not supported";
constexpr KnownGap kKnownGaps[] = {
    {"dbrx", "DbrxForCausalLM",
     "layer norms, and a fused projection of queries, keys and values, are not supported"},
    {"deepseek_v32", "DeepseekV32ForCausalLM", kSparseAttention},
    {"glm_moe_dsa", "GlmMoeDsaForCausalLM", kSparseAttention},
    {"grok-1", "Grok1ForCausalLM", kGrok},
    {"grok-1", "Grok1ModelForCausalLM", kGrok},
    {"phimoe", "PhimoeForCausalLM", kPhi},
    {"phimoe", "PhiMoEForCausalLM", kPhi},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", kDeltaRule},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", kDeltaRule},
    {"qwen3_next", "Qwen3NextForCausalLM", kDeltaRule},
};

// The sentence about a known gap, or nothing.
std::string GapOf(std::string_view name) {
  for (const KnownGap& gap : kKnownGaps) {
    if (name != gap.architecture && name != gap.model_type) continue;
    return ": " + std::string(gap.missing);
  }
  return "";
}

// The family that config.json names: by architecture, otherwise by model_type.
const ModelFamily* FindFamily(ConfigReader& config) {
  const std::vector<std::string> architectures = config.Strings("architectures");
  const std::string model_type = config.StringOr("model_type", "");
  for (const ModelFamily& family : ModelFamilies()) {
    if (architectures.empty() && family.family == model_type) return &family;
    for (const std::string& name : architectures) {
      if (name == family.architecture) return &family;
    }
  }
  std::string supported;
  for (const ModelFamily& family : ModelFamilies()) {
    if (!supported.empty()) supported += ", ";
    supported += family.architecture;
  }
  if (!architectures.empty()) {
    config.Fail("architectures", "'" + architectures.front() + "' is not supported" +
                                     GapOf(architectures.front()) + "; supported: " + supported);
  } else if (!model_type.empty()) {
    config.Fail("model_type", "'" + model_type + "' is not supported" + GapOf(model_type) +
                                  "; supported: " + supported);
  } else {
    config.Fail("architectures", "is missing, and so is model_type; supported: " + supported);
  }
  return nullptr;
}

// A block of weights with one scale must lie within one row.
void CheckMxfp4Sizes(ConfigReader& config, const ModelDescription& model) {
  if (model.mxfp4 == Mxfp4Layout::kNone) return;
  const auto check = [&](std::string_view field, int inputs) {
    if (inputs % kMxBlock == 0) return;
    config.Fail(field, "is " + std::to_string(inputs) + "; experts in mxfp4 ask for multiples of " +
                           std::to_string(kMxBlock));
  };
  check("hidden_size", model.hidden);
  check(config.Either("moe_intermediate_size", "intermediate_size"), model.moe.intermediate);
}

std::string ModelConfigPath(const std::string& model_dir) {
  return model_dir + "/config.json";
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

Result<ModelDescription> ParseModelConfig(std::string_view json) {
  JANUS_ASSIGN_OR_RETURN(ConfigReader config, ConfigReader::Parse(json));
  const ModelFamily* family = FindFamily(config);
  JANUS_RETURN_IF_ERROR(config.status());
  ModelDescription model = family->read(config);
  JANUS_RETURN_IF_ERROR(config.status());
  CheckMxfp4Sizes(config, model);
  JANUS_RETURN_IF_ERROR(config.status());
  model.family = family->family;
  model.architecture = family->architecture;
  return model;
}

Result<std::string> ReadModelConfig(const std::string& model_dir) {
  std::error_code error;
  const std::string path = ModelConfigPath(model_dir);
  const bool is_folder = std::filesystem::is_directory(model_dir, error);
  if (!is_folder || !Exists(path)) {
    const std::string near = NeighboursOf(model_dir);
    return NotFound((is_folder ? path + ": no such file" : model_dir + ": no such folder") +
                    "; want a Hugging Face checkpoint's folder" +
                    (near.empty() ? "" : "; " + near));
  }
  return ReadFile(path);
}

Result<ModelDescription> LoadModelConfig(const std::string& model_dir) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadModelConfig(model_dir));
  Result<ModelDescription> model = ParseModelConfig(text);
  if (!model.ok()) return std::move(model).status().Annotate(ModelConfigPath(model_dir));
  return model;
}

}  // namespace janus
