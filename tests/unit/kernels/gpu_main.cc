// Runs the parity cases on a GPU: one JSON line per case in the file that --results names, flushed
// when the case ends. A case that stands there as passed is not run again.
//
// The cases know nothing of devices: their heap is managed memory, which both sides see, and each
// launch is waited for.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <new>
#include <string>

#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels {

void NextOrder() {}

}  // namespace janus::kernels

namespace {

// A heap in managed memory: blocks of powers of two from one stretch, freed ones kept by size.
// Thread-safe. What is asked for before Open comes from malloc.
class ManagedHeap {
 public:
  cudaError_t Open(size_t bytes) {
    void* stretch = nullptr;
    const cudaError_t error = cudaMallocManaged(&stretch, bytes);
    if (error != cudaSuccess) return error;
    const std::lock_guard lock(mutex_);
    next_ = begin_ = static_cast<char*>(stretch);
    end_ = begin_ + bytes;
    return cudaSuccess;
  }

  // Null when there is no room. 64-byte aligned behind Open, as malloc's before.
  void* Allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (begin_ == nullptr) return std::malloc(bytes);
    const auto size = std::bit_width((bytes < 1 ? 1 : bytes) + kHead - 1);
    const auto of_size = static_cast<size_t>(size);
    if (Free* const block = free_[of_size]; block != nullptr) {
      free_[of_size] = block->next;
      return Hand(reinterpret_cast<char*>(block), of_size);
    }
    const size_t whole = size_t{1} << of_size;
    if (whole > static_cast<size_t>(end_ - next_)) return nullptr;
    char* const block = next_;
    next_ += whole;
    return Hand(block, of_size);
  }

  void Release(void* pointer) {
    auto* const bytes = static_cast<char*>(pointer);
    const std::lock_guard lock(mutex_);
    if (bytes < begin_ || bytes >= end_) {
      std::free(pointer);
      return;
    }
    char* const block = bytes - kHead;
    const size_t size = *reinterpret_cast<size_t*>(block);
    auto* const freed = new (block) Free{free_[size]};
    free_[size] = freed;
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr size_t kHead = 64;  // holds the size's logarithm

  static void* Hand(char* block, size_t size) {
    *reinterpret_cast<size_t*>(block) = size;
    return block + kHead;
  }

  std::mutex mutex_;
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

class JsonLines final : public testing::EmptyTestEventListener {
 public:
  explicit JsonLines(const std::string& path) : file_(path, std::ios::app) {}
  bool ok() const { return file_.good(); }
  void Write(const std::string& line) { file_ << line << std::endl; }
  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    Write(std::string("{\"case\": \"") + test.test_suite_name() + '.' + test.name() +
          "\", \"passed\": " + (result.Passed() ? "true" : "false") +
          ", \"ms\": " + std::to_string(result.elapsed_time()) + '}');
  }

 private:
  std::ofstream file_;
};

// ":Suite.Name" for each case that a line of the file calls passed.
std::string PassedIn(const std::string& path) {
  std::string passed;
  std::ifstream file(path);
  const std::string begin = "{\"case\": \"";
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find('"', begin.size());
    if (!line.starts_with(begin) || end == std::string::npos) continue;
    if (line.find("\"passed\": true") == std::string::npos) continue;
    passed += ':' + line.substr(begin.size(), end - begin.size());
  }
  return passed;
}

int Fail(cudaError_t error) {
  std::cerr << "no GPU that can run this: " << cudaGetErrorString(error) << '\n';
  return 3;
}

}  // namespace

void* operator new(size_t bytes) {
  void* const pointer = Heap().Allocate(bytes);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}
void operator delete(void* pointer) noexcept {
  if (pointer != nullptr) Heap().Release(pointer);
}
void operator delete(void* pointer, size_t) noexcept {
  operator delete(pointer);
}

int main(int argc, char** argv) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);  // before the first call of the runtime
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3 || std::string(argv[1]) != "--results") {
    std::cerr << "usage: " << argv[0] << " [--gtest_filter=...] --results FILE\n";
    return 2;
  }
  const std::string path = argv[2];
  cudaDeviceProp device{};
  if (const cudaError_t error = cudaGetDeviceProperties(&device, 0); error != cudaSuccess) {
    return Fail(error);
  }
  if (const cudaError_t error = Heap().Open(size_t{8} << 30); error != cudaSuccess) {
    return Fail(error);
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  const std::string passed = PassedIn(path);
  if (!passed.empty()) {
    filter += filter.find('-') == std::string::npos ? "-" + passed.substr(1) : passed;
  }
  auto* const lines = new JsonLines(path);  // the listeners own it
  if (!lines->ok()) {
    std::cerr << "cannot write " << path << '\n';
    return 2;
  }
  lines->Write(std::string("{\"device\": \"") + device.name +
               "\", \"sm\": " + std::to_string(device.major * 10 + device.minor) +
               ", \"runtime\": " + std::to_string(CUDART_VERSION) + '}');
  testing::UnitTest::GetInstance()->listeners().Append(lines);
  return RUN_ALL_TESTS();
}
