#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"
#include "kernels/device/context.h"

struct CUstream_st;

namespace janus::kernels {

// Flags in the host's memory that streams of a GPU signal and wait for, by CUDA's stream memory
// operations (driver API, cuStreamBatchMemOp): the GPU's front end does
// either, no kernel runs meanwhile. What a stream wrote before it signals one is visible to every
// reader of the flag (the write's default memory barrier, of the whole system).
//
// The memory is registered with the driver in whole pages, once a process: contexts of a process
// share the GPU's primary one. What CUDA does not know of an order that flags make, it may delay:
// of streams that share a hardware queue one that waits holds up the others (docs/cuda.md).
//
// Thread-safe.
class CudaFlags {
 public:
  explicit CudaFlags(int device) : device_(device) {}

  // As Context::RegisterFlags; FailedPrecondition, where the GPU or its driver has no such
  // operations.
  Status Register(std::byte* begin, size_t bytes);
  // No stream uses it any more.
  void Unregister(std::byte* begin, size_t bytes);
  // Queued on the stream, as Context's.
  Status Signal(CUstream_st* stream, std::span<const FlagCount> flags);
  Status StreamWait(CUstream_st* stream, std::span<const FlagCount> flags);

 private:
  const int device_;
};

}  // namespace janus::kernels
