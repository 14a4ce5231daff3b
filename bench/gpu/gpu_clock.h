#pragma once

#include <memory>

#include "bench/gpu/busy_context.h"

namespace janus::bench {

// A clock by events of the GPU's streams. Aborts if the GPU refuses.
std::unique_ptr<StreamClock> MakeGpuClock();

}  // namespace janus::bench
