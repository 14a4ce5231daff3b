#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/description.h"
#include "common/model/limits.h"

namespace janus {

// How one family's config.json becomes a description: one file per family (mixtral.cc, ...), one
// line in family.cc. `read` leaves errors in the reader.
struct ModelFamily {
  std::string_view family;        // "mixtral", also config.json's model_type
  std::string_view architecture;  // "MixtralForCausalLM"
  ModelDescription (*read)(ConfigReader& config);
};

std::span<const ModelFamily> ModelFamilies();

// Bounds for every family, beside those of limits.h. A size beyond them means a broken file. Within
// them no product of sizes exceeds 63 bits.
inline constexpr int64_t kMaxVocab = 1 << 22;
inline constexpr int64_t kMaxHidden = 1 << 16;
inline constexpr int64_t kMaxLayers = 1 << 10;
inline constexpr int64_t kMaxPositions = 1 << 24;
inline constexpr int64_t kMaxHeads = 1 << 10;
inline constexpr int64_t kMaxIntermediate = 1 << 18;

// Parts that many families share, each under the names that nearly all use.

// In which tensors a family's quantized experts lie, and so which quantization_config it reads.
enum class QuantizedExperts : uint8_t {
  kSeparate,  // each expert has its own: fp8, compressed-tensors, quark
  kTogether,  // all experts of a layer: mxfp4 as gpt-oss publishes it
  kNone,      // it has none that are supported
};
// Sizes, number format, norm and embeddings. Refuses settings that would silently change the
// mathematics: quantization, biases, another activation. The caller fills in attention, experts and
// dense layers.
ModelDescription ReadSizes(ConfigReader& config, double default_epsilon,
                           QuantizedExperts experts = QuantizedExperts::kSeparate);
// Refuses a field that is true, and says why.
void RefuseTrue(ConfigReader& config, std::string_view field, const std::string& why);
// The same for biases on attention's projections.
void RefuseAttentionBias(ConfigReader& config);
// The same for a sliding window that published files have switched off.
void RefuseSlidingWindow(ConfigReader& config, AttentionDescription& attention);
struct GroupedQueryDefaults {
  int64_t kv_heads;  // 0: as many as query heads
  double theta;
  // Of each head so much turns, "partial_rotary_factor". 0: the family turns whole heads, and
  // refuses another factor.
  double rotary_part = 0.0;
};
// Grouped-query attention with rope. Checks that heads, kv heads and head size fit each other.
AttentionDescription ReadGroupedQueryAttention(ConfigReader& config, int hidden,
                                               const GroupedQueryDefaults& defaults);
// Rope over `rotary_dim` elements, plain, YaRN or Llama 3's, in the published form (rope_theta,
// rope_scaling) or that of transformers 5 (rope_parameters). Refuses any other rope_type by name.
RopeDescription ReadRope(ConfigReader& config, int rotary_dim, double default_theta);
// Makes it YaRN with the usual attention_factor.
void SetYarn(const YarnDescription& yarn, RopeDescription& rope);
// Reads the number of experts and top-k under these names.
void ReadExperts(ConfigReader& config, std::string_view experts, int64_t default_experts,
                 std::string_view top_k, int64_t default_top_k, MoeDescription& moe);
// Reads the dense layers of Qwen's families from decoder_sparse_step and mlp_only_layers.
void ReadSparseSteps(ConfigReader& config, ModelDescription& model);
// Fills dense_layers with the layers for which `is_moe` is false, and reads their width. Errors
// name `fields` if no MoE layer is left.
void ReadDenseLayers(ConfigReader& config, std::string_view fields,
                     const std::function<bool(int layer)>& is_moe, ModelDescription& model,
                     std::string_view width = "intermediate_size");

}  // namespace janus
