#pragma once

#include <memory>

#include "kernels/device/context.h"

namespace janus::kernels {

// A context on the machine's first GPU (or the first that CUDA_VISIBLE_DEVICES leaves): a stream
// for steps, one for loads, and a pool from which memory is taken and to which it returns in the
// order of either, so that an epoch being prepared does not stop the one that serves.
// Unimplemented: this build has no CUDA. Unavailable: there is no GPU that it can use, in the
// runtime's words. FailedPrecondition: there is one of another architecture than this build's.
Result<std::unique_ptr<Context>> MakeCudaContext();

// Sets in the environment what CUDA's runtime reads at its first call, for streams that wait for
// flags (docs/cuda.md), but for what the user has set. MakeCudaContext does; a program that calls
// the runtime before it, before other threads read the environment, calls this before that.
void PrepareCudaEnvironment();

}  // namespace janus::kernels
