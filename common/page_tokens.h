#pragma once

namespace janus {

// Positions of a sequence in one page of keys and values: how kernels read them, and by how much a
// plan rounds.
inline constexpr int kPageTokens = 16;

}  // namespace janus
