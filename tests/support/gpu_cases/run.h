#pragma once

// Shared parts of programs with cases for a GPU: a book of the cases (case_book.h) in the file of
// --results, and a way to continue after a case that leaves the process without its GPU.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "kernels/device/cuda_context.h"
#include "tests/support/gpu_cases/book_end.h"
#include "tests/support/gpu_cases/case_book.h"

namespace janus::kernels {

// Whether a launch has left the process without its GPU: errors of kernels are permanent.
inline bool HasLostTheGpu() {
  cudaGetLastError();  // clears a refusal, which is not permanent
  return cudaDeviceSynchronize() != cudaSuccess;
}

class BookCases final : public testing::EmptyTestEventListener {
 public:
  static constexpr int kLost = 4;

  explicit BookCases(CaseBook& book) : book_(book) {}
  void OnTestStart(const testing::TestInfo& test) override { book_.Begin(NameOf(test)); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const bool lost = HasLostTheGpu();
    BookEnd(book_, test, lost);
    if (lost) std::_Exit(kLost);  // all later cases would fail
  }

 private:
  CaseBook& book_;
};

// The program's main. open(apart) prepares what the cases need and returns the runtime's error.
// Exit 1: some failed; 2: called wrongly; 3: no GPU that can run this; kLost: one case lost it, and
// another run continues.
template <class Open>
int RunGpuCases(int argc, char** argv, Open open) {
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
                 "  --apart  what memory the cases take is made piece by piece, for memcheck\n";
    return 2;
  }
  PrepareCudaEnvironment();
  cudaDeviceProp device{};
  cudaError_t error = cudaGetDeviceProperties(&device, 0);
  if (error == cudaSuccess) error = open(apart);
  if (error != cudaSuccess) {
    std::cerr << "no GPU that can run this: " << cudaGetErrorString(error) << '\n';
    return 3;
  }
  auto* const book = new CaseBook(path);  // may be written while the process ends
  if (!book->ok()) {
    std::cerr << "cannot write " << path << '\n';
    return 2;
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  filter = book->FilterOf(filter, again);
  book->Write(std::string("{\"device\": \"") + device.name +
              "\", \"sm\": " + std::to_string(device.major * 10 + device.minor) +
              ", \"runtime\": " + std::to_string(CUDART_VERSION) + '}');
  testing::UnitTest::GetInstance()->listeners().Append(new BookCases(*book));
  return RUN_ALL_TESTS();
}

}  // namespace janus::kernels
