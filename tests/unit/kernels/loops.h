#pragma once

#include <cstdint>

namespace janus::kernels {

// Of rules as loops on the host: more take longer than a case may, also beside a GPU. What is
// beyond is held by the plain form alone.
inline bool TooLongForLoops(int64_t multiplications) {
  return multiplications > int64_t{1'500'000'000};
}

inline constexpr const char* kTooLongForLoops =
    "takes longer as loops on the host than a case may: held by the plain form alone";

}  // namespace janus::kernels
