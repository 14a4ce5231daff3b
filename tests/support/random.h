#pragma once

#include <cstdint>
#include <string>

#include "tests/support/sanitized.h"

namespace janus {

// The seed without JANUS_SEED, so that the default run repeats itself. DEFAULT_SEED of
// tests/support/python/janus_test.py is the same.
inline constexpr uint64_t kDefaultSeed = 1;

// The seed of this test process: JANUS_SEED if it is set, otherwise kDefaultSeed. Printed at first
// use, so that a failed run can be repeated.
uint64_t TestSeed();

// Whether the long form of the randomised suites is requested (JANUS_SOAK=1).
bool Soak();

// How many random cases a suite tries: in a build with a sanitizer, in the gate, in the shards of
// scripts/nightly (JANUS_NIGHTLY=1) and in scripts/soak.
struct Tries {
  int sanitized = 0;
  int gate = 0;
  int nightly = 0;
  int soak = 0;
};
int HowMany(const Tries& tries);

// A small generator with the same numbers everywhere (splitmix64; Steele, Lea, Flood 2014).
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

// Mixes several numbers into one, for the seeds of parts.
uint64_t MixSeed(uint64_t a, uint64_t b, uint64_t c = 0);

}  // namespace janus
