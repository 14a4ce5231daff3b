#pragma once

#include <cstddef>
#include <cstdint>

#include "common/fd.h"
#include "common/status.h"

namespace janus::kernels {

// Memory of a GPU that processes share by a file descriptor, as CUDA's virtual memory management
// has it (CUDA C++ programming guide, virtual memory management; driver API, cuMem*): unlike what
// cudaIpcGetMemHandle shows it can be mapped within one process too, outlives its creator, and
// needs no namespace in common, as descriptors travel over sockets. All of it takes whole pages of
// the GPU, of 2 MiB.
//
// Thread-safe.
class CudaSharedMemory {
 public:
  explicit CudaSharedMemory(int device) : device_(device) {}

  // As Context::AllocateShared and MapShared.
  Result<std::byte*> Allocate(size_t bytes, Fd& fd);
  Result<std::byte*> Map(const Fd& fd, size_t bytes);
  // Whether network devices reach what Allocate gives (GPUDirect RDMA). FailedPrecondition says why
  // not.
  Status CheckNetwork() const;
  // Whatever might use it has run.
  void Unmap(std::byte* data, size_t bytes);

 private:
  const int device_;
};

}  // namespace janus::kernels
