#include "tests/support/random.h"

#include <cstdlib>
#include <iostream>

namespace janus {

uint64_t TestSeed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("JANUS_SEED");
    const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : kDefaultSeed;
    std::cout << "JANUS_SEED=" << value << std::endl;
    return value;
  }();
  return seed;
}

namespace {

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string(value) == "1";
}

}  // namespace

bool Soak() {
  return IsSet("JANUS_SOAK");
}

int HowMany(const Tries& tries) {
  if (Soak()) return tries.soak;
  if (kSanitized) return tries.sanitized;
  return IsSet("JANUS_NIGHTLY") ? tries.nightly : tries.gate;
}

uint64_t Random::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

int Random::Between(int low, int high) {
  return low + static_cast<int>(Next() % static_cast<uint64_t>(high - low + 1));
}

bool Random::Chance(double probability) {
  return static_cast<double>(Next() >> 11) * 0x1p-53 < probability;
}

float Random::Signed() {
  return static_cast<float>(static_cast<double>(Next() >> 11) * 0x1p-52 - 1.0);
}

uint64_t MixSeed(uint64_t a, uint64_t b, uint64_t c) {
  return Random(Random(Random(a).Next() ^ b).Next() ^ c).Next();
}

}  // namespace janus
