#pragma once

#include <cstdint>

namespace janus {

// How far a download of a model is: in its small files, or in the weights.
struct FetchProgress {
  int64_t bytes_done = 0;  // 0..bytes_total
  int64_t bytes_total = 0;
  int32_t files_done = 0;  // 0..files_total
  int32_t files_total = 0;
  friend bool operator==(const FetchProgress&, const FetchProgress&) = default;
};

}  // namespace janus
