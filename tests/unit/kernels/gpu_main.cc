// Runs the parity cases on a GPU and keeps book of them (case_book.h) in the file that --results
// names. Exit 1: some failed; 4: one left the process without its GPU, and another run goes on.
//
// The cases know nothing of devices: their heap is managed memory, which both sides see, and each
// launch is waited for.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <new>
#include <string>

#include "tests/unit/kernels/case_book.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels {

void NextOrder() {}

}  // namespace janus::kernels

namespace {

constexpr int kLost = 4;

// A heap in managed memory: blocks of powers of two from one stretch, freed ones kept by size; or
// blocks of their own, whose ends a sanitizer sees. Thread-safe. What is asked for before Open
// comes from malloc.
class ManagedHeap {
 public:
  static constexpr size_t kAlignment = 64;

  // 0 bytes: blocks of their own.
  cudaError_t Open(size_t bytes) {
    void* stretch = nullptr;
    if (bytes > 0) {
      const cudaError_t error = cudaMallocManaged(&stretch, bytes);
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
      const size_t whole = (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
      return Hand(std::aligned_alloc(kAlignment, whole), kOfMalloc);
    }
    if (begin_ == nullptr) {
      void* block = nullptr;
      is_asking = true;
      const cudaError_t error = cudaMallocManaged(&block, bytes + kAlignment);
      is_asking = false;
      return error == cudaSuccess ? Hand(block, kOfItsOwn) : nullptr;
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

// Never destroyed: what other statics own is released after it.
ManagedHeap& Heap() {
  alignas(ManagedHeap) static char room[sizeof(ManagedHeap)];
  static auto* const heap = new (room) ManagedHeap;
  return *heap;
}

// Whether a launch has left the process without its GPU: errors of kernels stay.
bool HasLostTheGpu() {
  cudaGetLastError();  // of what was refused, which does not stay
  return cudaDeviceSynchronize() != cudaSuccess;
}

class Lines final : public testing::EmptyTestEventListener {
 public:
  explicit Lines(janus::kernels::CaseBook& book) : book_(book) {}
  void OnTestStart(const testing::TestInfo& test) override { book_.Begin(NameOf(test)); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    const bool lost = HasLostTheGpu();
    book_.End(NameOf(test), result.Passed(), lost, result.elapsed_time());
    if (lost) std::_Exit(kLost);  // all that follows would fail
  }

 private:
  static std::string NameOf(const testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + '.' + test.name();
  }
  janus::kernels::CaseBook& book_;
};

int Fail(cudaError_t error) {
  std::cerr << "no GPU that can run this: " << cudaGetErrorString(error) << '\n';
  return 3;
}

}  // namespace

// All forms: who asks for aligned memory hands it to kernels too.
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
  testing::InitGoogleTest(&argc, argv);
  std::string path;
  bool again = false;
  bool apart = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--results" && i + 1 < argc) {
      path = argv[++i];
    } else if (argument == "--again") {
      again = true;
    } else if (argument == "--apart") {
      apart = true;
    } else {
      path.clear();
      break;
    }
  }
  if (path.empty()) {
    std::cerr << "usage: " << argv[0]
              << " [--gtest_filter=...] [--again] [--apart] --results FILE\n"
                 "  --again  what a run before began and did not end, once more\n"
                 "  --apart  each block of the heap has memory of its own, for memcheck\n";
    return 2;
  }
  cudaDeviceProp device{};
  if (const cudaError_t error = cudaGetDeviceProperties(&device, 0); error != cudaSuccess) {
    return Fail(error);
  }
  if (const cudaError_t error = Heap().Open(apart ? 0 : size_t{8} << 30); error != cudaSuccess) {
    return Fail(error);
  }
  auto* const book = new janus::kernels::CaseBook(path);  // may be written as the process ends
  if (!book->ok()) {
    std::cerr << "cannot write " << path << '\n';
    return 2;
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  filter = book->FilterOf(filter, again);
  book->Write(std::string("{\"device\": \"") + device.name +
              "\", \"sm\": " + std::to_string(device.major * 10 + device.minor) +
              ", \"runtime\": " + std::to_string(CUDART_VERSION) + '}');
  testing::UnitTest::GetInstance()->listeners().Append(new Lines(*book));
  return RUN_ALL_TESTS();
}
