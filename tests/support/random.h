#pragma once

#include <cstdint>
#include <string>

namespace janus {

// The seed of this test process: JANUS_SEED if it is set, else a new one each time. Printed on
// first use, so that a failure can be run again.
uint64_t TestSeed();

// Whether the long form of the randomised suites is asked for (JANUS_SOAK=1).
bool Soak();

// Whether this binary runs under a sanitizer, which makes it ten times slower; randomised suites
// then draw fewer cases.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

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
