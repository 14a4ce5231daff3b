#pragma once

#include <cstdint>

namespace janus::kernels {

// From here on the CUDA kernels that run on this thread take their threads and blocks in an order
// that no call before took. Without effect where they run on a GPU.
void NextOrder();

}  // namespace janus::kernels
