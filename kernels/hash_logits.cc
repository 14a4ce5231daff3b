#include <cstring>

#include "kernels/kernels.h"

namespace janus::kernels {
namespace {

// Multiplies and folds the 128-bit product: every bit of either factor reaches every bit.
uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Odd, half of the bits set; digits of pi.
constexpr uint64_t kA = 0x243F6A8885A308D3u;
constexpr uint64_t kB = 0x13198A2E03707345u;

}  // namespace

uint64_t HashLogits(std::span<const float> logits) {
  uint64_t hash = Fold(logits.size() ^ kA, kB);
  size_t i = 0;
  for (; i + 2 <= logits.size(); i += 2) {
    uint64_t pair = 0;
    std::memcpy(&pair, logits.data() + i, sizeof(pair));
    hash = Fold(hash ^ pair ^ kA, kB + 2 * i);
  }
  if (i < logits.size()) {
    uint32_t last = 0;
    std::memcpy(&last, logits.data() + i, sizeof(last));
    hash = Fold(hash ^ last ^ kB, kA);
  }
  return Fold(hash ^ kB, kA);
}

}  // namespace janus::kernels
