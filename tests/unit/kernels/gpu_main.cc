// Runs the parity cases on a GPU. The cases do not handle devices: their heap is managed memory,
// which both sides see, and each launch is waited for.

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#include "tests/support/gpu_cases/run.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels {

void NextOrder() {}

}  // namespace janus::kernels

namespace {

// A heap in managed memory: blocks of powers of two from one stretch, freed ones kept by size. Or
// each block is a separate allocation, so that a sanitizer sees its end. Thread-safe. Memory that
// is allocated before Open comes from malloc.
class ManagedHeap {
 public:
  static constexpr size_t kAlignment = 64;

  // 0 bytes: each block is a separate allocation.
  cudaError_t Open(size_t bytes) {
    void* stretch = nullptr;
    if (bytes > 0 && cudaMallocManaged(&stretch, bytes) != cudaSuccess) {
      cudaGetLastError();
      // Slower, and seen by both likewise.
      const cudaError_t error =
          cudaHostAlloc(&stretch, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
      if (error != cudaSuccess) return error;
    }
    is_open_ = true;
    next_ = begin_ = static_cast<char*>(stretch);
    end_ = begin_ + bytes;
    return cudaSuccess;
  }

  // Null when there is no room. Aligned to kAlignment.
  void* Allocate(size_t bytes) {
    static thread_local bool is_asking = false;  // the runtime may want memory to make some
    if (bytes < 1) bytes = 1;
    if (!is_open_ || is_asking) {
      return Hand(std::aligned_alloc(kAlignment, Whole(bytes)), kOfMalloc);
    }
    if (begin_ == nullptr) {
      void* block = nullptr;
      is_asking = true;
      const cudaError_t error = cudaMallocManaged(&block, bytes + kAlignment);
      is_asking = false;
      if (error == cudaSuccess) return Hand(block, kOfItsOwn);
      // The GPU is lost; only a report is possible.
      return Hand(std::aligned_alloc(kAlignment, Whole(bytes)), kOfMalloc);
    }
    const auto of_size = static_cast<size_t>(std::bit_width(bytes + kAlignment - 1));
    const std::lock_guard lock(mutex_);
    if (Free* const block = free_[of_size]; block != nullptr) {
      free_[of_size] = block->next;
      return Hand(block, of_size);
    }
    const size_t whole = size_t{1} << of_size;
    if (whole > static_cast<size_t>(end_ - next_)) return nullptr;
    char* const block = next_;
    next_ += whole;
    return Hand(block, of_size);
  }

  void Release(void* pointer) {
    char* const block = static_cast<char*>(pointer) - kAlignment;
    const size_t size = *reinterpret_cast<size_t*>(block);
    if (size == kOfMalloc) {
      std::free(block);
    } else if (size == kOfItsOwn) {
      cudaFree(block);
    } else {
      const std::lock_guard lock(mutex_);
      free_[size] = new (block) Free{free_[size]};
    }
  }

 private:
  struct Free {
    Free* next;
  };
  // In the head of a block, in place of its size's logarithm.
  static constexpr size_t kOfMalloc = 64;
  static constexpr size_t kOfItsOwn = 65;

  // With a head, as aligned_alloc wants it.
  static size_t Whole(size_t bytes) {
    return (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
  }
  static void* Hand(void* block, size_t size) {
    if (block == nullptr) return nullptr;
    *static_cast<size_t*>(block) = size;
    return static_cast<char*>(block) + kAlignment;
  }

  bool is_open_ = false;  // before there are other threads
  std::mutex mutex_;      // of what follows
  char* begin_ = nullptr;
  char* next_ = nullptr;
  char* end_ = nullptr;
  std::array<Free*, 64> free_ = {};
};

// Never destroyed: other statics free their memory later.
ManagedHeap& Heap() {
  alignas(ManagedHeap) static char room[sizeof(ManagedHeap)];
  static auto* const heap = new (room) ManagedHeap;
  return *heap;
}

}  // namespace

// All forms of new, because aligned memory is passed to kernels too.
void* operator new(size_t bytes) {
  void* const pointer = Heap().Allocate(bytes);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (static_cast<size_t>(alignment) > ManagedHeap::kAlignment) throw std::bad_alloc();
  return operator new(bytes);
}
void operator delete(void* pointer) noexcept {
  if (pointer != nullptr) Heap().Release(pointer);
}
void operator delete(void* pointer, size_t) noexcept {
  operator delete(pointer);
}
void operator delete(void* pointer, std::align_val_t) noexcept {
  operator delete(pointer);
}
void operator delete(void* pointer, size_t, std::align_val_t) noexcept {
  operator delete(pointer);
}

int main(int argc, char** argv) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);  // before the first call of the runtime
  return janus::kernels::RunGpuCases(
      argc, argv, [](bool apart) { return Heap().Open(apart ? 0 : size_t{8} << 30); });
}
