#pragma once

#include <span>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/description.h"

namespace janus {

// How one family's config.json becomes a description: one file per family (mixtral.cc, ...), one
// line in family.cc. `read` leaves what is wrong in the reader.
struct ModelFamily {
  std::string_view family;        // "mixtral", also config.json's model_type
  std::string_view architecture;  // "MixtralForCausalLM"
  ModelDescription (*read)(ConfigReader& config);
};

std::span<const ModelFamily> ModelFamilies();

// Bounds that hold for every family: beyond them a size is a broken file, and below them no product
// of sizes passes 63 bits.
inline constexpr int64_t kMaxVocab = 1 << 22;
inline constexpr int64_t kMaxHidden = 1 << 16;
inline constexpr int64_t kMaxLayers = 1 << 10;
inline constexpr int64_t kMaxPositions = 1 << 24;
inline constexpr int64_t kMaxHeads = 1 << 10;
inline constexpr int64_t kMaxHeadDim = 1 << 10;
inline constexpr int64_t kMaxExperts = 1 << 12;
inline constexpr int64_t kMaxTopK = 64;
inline constexpr int64_t kMaxIntermediate = 1 << 18;

// What many families write alike.
DType ReadDtype(ConfigReader& config);
// Grouped-query attention with plain rope over the whole head; heads, kv heads and head size are
// checked against each other.
AttentionDescription ReadGroupedQueryAttention(ConfigReader& config, int hidden,
                                               int64_t default_kv_heads, double default_theta);
// Refuses what would change the mathematics unseen: quantization, biases, another activation.
void RefuseUnsupported(ConfigReader& config);

}  // namespace janus
