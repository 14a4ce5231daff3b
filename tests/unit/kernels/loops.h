#pragma once

#include <cstdint>

namespace janus::kernels {

// The most steps of rules as loops on the host: more would take longer than a case may, also beside
// a GPU. Larger cases are compared with the plain form only.
inline bool TooLongForLoops(int64_t multiplications) {
  return multiplications > int64_t{1'500'000'000};
}

inline constexpr const char* kTooLongForLoops =
    "takes longer as loops on the host than a case may: held by the plain form alone";

}  // namespace janus::kernels
