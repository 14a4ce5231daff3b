#pragma once

#include <cstdint>
#include <string>

#include "tests/support/sanitized.h"

namespace janus {

// The seed without JANUS_SEED, so that the default run repeats itself. DEFAULT_SEED of
// tests/support/python/janus_test.py is the same.
inline constexpr uint64_t kDefaultSeed = 1;

// The seed of this test process: JANUS_SEED if it is set, else kDefaultSeed. Printed on first use,
// so that a failure can be run again.
uint64_t TestSeed();

// Whether the long form of the randomised suites is asked for (JANUS_SOAK=1).
bool Soak();

// A small generator whose numbers are the same everywhere (splitmix64; Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next();
  // In low..high, both included.
  int Between(int low, int high);
  bool Chance(double probability);
  // In [-1, 1).
  float Signed();

 private:
  uint64_t state_;
};

// One number out of several, for seeds of parts.
uint64_t MixSeed(uint64_t a, uint64_t b, uint64_t c = 0);

}  // namespace janus
