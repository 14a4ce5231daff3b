#pragma once

#include <cstddef>
#include <cstdint>

#include "common/fd.h"
#include "common/status.h"

namespace janus::kernels {

// Memory of a GPU that processes share by a file descriptor, by CUDA's virtual memory management
// (CUDA C++ programming guide, virtual memory management; driver API, cuMem*). It differs from
// memory of cudaIpcGetMemHandle: it can be mapped within one process too, outlives its creator, and
// needs no common namespace, because descriptors travel over sockets. Sizes are whole pages of the
// GPU, of 2 MiB.
//
// Thread-safe.
class CudaSharedMemory {
 public:
  explicit CudaSharedMemory(int device) : device_(device) {}

  // As Context::AllocateShared and MapShared.
  Result<std::byte*> Allocate(size_t bytes, Fd& fd);
  Result<std::byte*> Map(const Fd& fd, size_t bytes);
  // Whether network devices reach memory of Allocate (GPUDirect RDMA). FailedPrecondition: they do
  // not, and why.
  Status CheckNetwork() const;
  // Everything that might use the memory must have run.
  void Unmap(std::byte* data, size_t bytes);

 private:
  const int device_;
};

}  // namespace janus::kernels
