// That the host form of a block finds what it is there to find.

#include "kernels/cuda/block.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels {

void NextOrder() {
  ++cuda::host_order_seed;
}

namespace cuda {
namespace {

// Reverses 64 numbers through shared memory: as it should, or with both steps in one phase.
struct ReverseKernel {
  static constexpr int kThreads = 64;
  int* numbers;
  bool with_barrier;
  template <class Block>
  void operator()(Block& block) const {
    auto* const shared = reinterpret_cast<int*>(block.shared());
    const auto put = [&](int thread) { shared[thread] = numbers[thread]; };
    const auto take = [&](int thread) { numbers[thread] = shared[kThreads - 1 - thread]; };
    if (with_barrier) {
      block.Phase(put);
      block.Phase(take);
      return;
    }
    block.Phase([&](int thread) {
      put(thread);
      take(thread);
    });
  }
};

int Wrong(bool with_barrier) {
  NextOrder();
  std::vector<int> numbers(ReverseKernel::kThreads);
  std::iota(numbers.begin(), numbers.end(), 0);
  EXPECT_TRUE(
      Start("Reverse", Stream{}, ReverseKernel{numbers.data(), with_barrier}, {1, 64, 64 * 4, 0, 0})
          .ok());
  int wrong = 0;
  for (int i = 0; i < 64; ++i) wrong += numbers[static_cast<size_t>(i)] != 63 - i ? 1 : 0;
  return wrong;
}

TEST(HostBlock, AMissingBarrierShowsInEveryOrderAndOneThatIsThereInNone) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Wrong(true), 0);
    EXPECT_GT(Wrong(false), 0);
  }
}

// Which of two threads comes first.
struct FirstKernel {
  static constexpr int kThreads = 32;
  int a;
  int b;
  int* first;
  template <class Block>
  void operator()(Block& block) const {
    block.Phase([&](int thread) {
      if ((thread == a || thread == b) && *first < 0) *first = thread;
    });
  }
};

TEST(HostBlock, EitherOfTwoThreadsComesFirstInSomeOrder) {
  for (const auto& [a, b] : {std::pair{0, 1}, std::pair{0, 31}, std::pair{7, 20}}) {
    std::set<int> firsts;
    for (int i = 0; i < 200; ++i) {
      NextOrder();
      int first = -1;
      ASSERT_TRUE(Start("First", Stream{}, FirstKernel{a, b, &first}, {1, 32, 0, 0, 0}).ok());
      firsts.insert(first);
    }
    EXPECT_EQ(firsts, (std::set<int>{a, b}));
  }
}

TEST(Start, RefusesPlansThatNoGpuTakesAndRunsNothingOfAnEmptyOne) {
  int first = -1;
  const FirstKernel kernel{0, 1, &first};
  EXPECT_TRUE(Start("First", Stream{}, kernel, {0, 32, 0, 0, 0}).ok());
  for (const Plan& plan : {Plan{kMaxBlocks + 1, 32, 0, 0, 0}, Plan{1, 33, 0, 0, 0},
                           Plan{1, 2048, 0, 0, 0}, Plan{1, 32, kMaxSharedBytes + 1, 0, 0}}) {
    EXPECT_EQ(Start("First", Stream{}, kernel, plan).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(first, -1);
}

}  // namespace
}  // namespace cuda
}  // namespace janus::kernels
