#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/description.h"
#include "common/model/limits.h"

namespace janus {

// How one family's config.json becomes a description: one file per family (mixtral.cc, ...), one
// line in family.cc. `read` leaves what is wrong in the reader.
struct ModelFamily {
  std::string_view family;        // "mixtral", also config.json's model_type
  std::string_view architecture;  // "MixtralForCausalLM"
  ModelDescription (*read)(ConfigReader& config);
};

std::span<const ModelFamily> ModelFamilies();

// Bounds that hold for every family, beside those of limits.h: beyond them a size is a broken file,
// and below them no product of sizes passes 63 bits.
inline constexpr int64_t kMaxVocab = 1 << 22;
inline constexpr int64_t kMaxHidden = 1 << 16;
inline constexpr int64_t kMaxLayers = 1 << 10;
inline constexpr int64_t kMaxPositions = 1 << 24;
inline constexpr int64_t kMaxHeads = 1 << 10;
inline constexpr int64_t kMaxIntermediate = 1 << 18;

// What many families write alike, each part under the names that nearly all use.

// Sizes, number format, norm and embeddings; refuses what would change the mathematics unseen:
// quantization, biases, another activation. Attention, experts and dense layers are left to fill.
ModelDescription ReadSizes(ConfigReader& config, double default_epsilon);
// Grouped-query attention with rope over the whole head; heads, kv heads and head size are checked
// against each other.
AttentionDescription ReadGroupedQueryAttention(ConfigReader& config, int hidden,
                                               int64_t default_kv_heads, double default_theta);
// Rope over `rotary_dim` elements, plain or YaRN, as published (rope_theta, rope_scaling) or as
// transformers 5 writes it (rope_parameters). Any other rope_type is refused by name.
RopeDescription ReadRope(ConfigReader& config, int rotary_dim, double default_theta);
// Number of experts and how many a token visits, under these names.
void ReadExperts(ConfigReader& config, std::string_view experts, int64_t default_experts,
                 std::string_view top_k, int64_t default_top_k, MoeDescription& moe);
// Fills dense_layers with those that `is_moe` denies, and reads their intermediate_size. `fields`
// are named when no MoE layer is left.
void ReadDenseLayers(ConfigReader& config, std::string_view fields,
                     const std::function<bool(int layer)>& is_moe, ModelDescription& model);

}  // namespace janus
