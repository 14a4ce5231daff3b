#pragma once

#include <memory>

#include "kernels/device/context.h"

namespace janus::kernels {

// A context on the machine's first GPU (or the first that CUDA_VISIBLE_DEVICES leaves). It has a
// stream for steps, a stream for loads, and a memory pool. Memory is allocated and freed in the
// order of either stream, so an epoch that is being prepared does not stop the one that serves.
// Unimplemented: this build has no CUDA. Unavailable: the process can use no GPU, in the runtime's
// words. FailedPrecondition: the build was not compiled for the GPU's architecture.
Result<std::unique_ptr<Context>> MakeCudaContext();

// Sets the environment variables that CUDA's runtime reads at its first call and that streams need
// to wait for flags (docs/cuda.md). Variables that the user has set stay. MakeCudaContext calls it.
// A program that calls the runtime earlier must call it first, before other threads read the
// environment.
void PrepareCudaEnvironment();

}  // namespace janus::kernels
