#pragma once

#include "kernels/device/registered_pages.h"

namespace janus::kernels {

// What the process's contexts on a GPU reach of the host's memory beside what they have taken.
// Thread-safe.
RegisteredPages& CudaHostPages();

}  // namespace janus::kernels
