#pragma once

namespace janus {

// What the kernels are made for: their scratch has these sizes. A config.json that asks for more is
// refused with the field's name.
inline constexpr int kMaxHeadDim = 256;     // elements of a head's query, key or value
inline constexpr int kMaxLatentRank = 512;  // elements of the latent vector
inline constexpr int kMaxExperts = 4096;    // per layer
inline constexpr int kMaxTopK = 32;
inline constexpr int kMaxGroups = 64;  // of experts

}  // namespace janus
