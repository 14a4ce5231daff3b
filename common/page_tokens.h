#pragma once

namespace janus {

// Positions of a sequence in one page of keys and values. Kernels read whole pages, and plans round
// up to them.
inline constexpr int kPageTokens = 16;

}  // namespace janus
