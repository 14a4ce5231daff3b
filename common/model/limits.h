#pragma once

namespace janus {

// Sizes that the kernels' scratch memory is made for. A config.json with larger values is refused
// with the field's name.
inline constexpr int kMaxHeadDim = 256;     // elements of a head's query, key or value
inline constexpr int kMaxLatentRank = 512;  // elements of the latent vector
inline constexpr int kMaxExperts = 4096;    // per layer
inline constexpr int kMaxTopK = 32;
inline constexpr int kMaxGroups = 64;  // of experts

}  // namespace janus
