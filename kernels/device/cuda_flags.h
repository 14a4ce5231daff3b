#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"
#include "kernels/device/context.h"

struct CUstream_st;

namespace janus::kernels {

// Flags in the host's memory that streams of a GPU signal and wait for, by CUDA's stream memory
// operations (driver API, cuStreamBatchMemOp). The GPU's front end does both, without a kernel.
// What a stream wrote before it signals a flag is visible to every reader of the flag (the write's
// default memory barrier, of the whole system).
//
// The memory is registered with the driver in whole pages, once a process, because contexts of a
// process share the GPU's primary one. CUDA does not know the order that flags make. If streams
// share a hardware queue, one that waits may hold up the others (docs/cuda.md).
//
// Thread-safe.
class CudaFlags {
 public:
  explicit CudaFlags(int device) : device_(device) {}

  // As Context::RegisterFlags. FailedPrecondition: the GPU or its driver has no such operations.
  Status Register(std::byte* begin, size_t bytes);
  // Call it when no stream uses the memory any more.
  void Unregister(std::byte* begin, size_t bytes);
  // Queue on the stream, as Context's functions do.
  Status Signal(CUstream_st* stream, std::span<const FlagCount> flags);
  Status StreamWait(CUstream_st* stream, std::span<const FlagCount> flags);

 private:
  const int device_;
};

}  // namespace janus::kernels
