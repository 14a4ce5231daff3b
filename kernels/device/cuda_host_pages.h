#pragma once

#include "kernels/device/registered_pages.h"

namespace janus::kernels {

// The host's pages that the process's contexts on a GPU reach, beside memory that they have
// allocated. Thread-safe.
RegisteredPages& CudaHostPages();

}  // namespace janus::kernels
