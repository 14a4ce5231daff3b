#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "common/status.h"

namespace janus::control {

// A GPU of this machine that its workers can use.
struct LocalGpu {
  std::string id;    // for CUDA_VISIBLE_DEVICES
  std::string name;  // "NVIDIA H200"
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

struct LocalGpus {
  std::vector<LocalGpu> gpus;
  std::string why;  // there are none
};

// Asks a worker's program (janus-worker gpus). Blocks for as long as CUDA takes to start, at most a
// minute. Unavailable: the program does not answer.
Result<LocalGpus> FindGpus(const std::string& worker_program, const std::stop_token& stop);

}  // namespace janus::control
