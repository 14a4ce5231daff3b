#pragma once

#include <memory>

#include "bench/gpu/busy_context.h"

namespace janus::bench {

// By events of a GPU's streams. Aborts where the GPU refuses.
std::unique_ptr<StreamClock> MakeGpuClock();

}  // namespace janus::bench
