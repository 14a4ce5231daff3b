// The host form of a block finds the errors that it must find.

#include "kernels/cuda/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

#include "kernels/cuda/start.h"
#include "kernels/cuda/warp.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels {

void NextOrder() {
  ++cuda::host_order_seed;
}

namespace cuda {
namespace {

// Reverses 64 numbers through shared memory, correctly or with both steps in one phase.
struct ReverseKernel {
  [[maybe_unused]] static constexpr int kThreads = 64;
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
  [[maybe_unused]] static constexpr int kThreads = 32;
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

// Reverses 32 numbers within each of two warps through shared memory, in two steps or in one.
struct ReverseLanesKernel {
  [[maybe_unused]] static constexpr int kThreads = 64;
  int* numbers;
  bool with_barrier;
  template <class Block>
  void operator()(Block& block) const {
    block.Warps([&](auto& warp) {
      auto* const shared = reinterpret_cast<int*>(block.shared()) + warp.index() * kLanes;
      int* const mine = numbers + warp.index() * kLanes;
      const auto put = [&](int lane) { shared[lane] = mine[lane]; };
      const auto take = [&](int lane) { mine[lane] = shared[kLanes - 1 - lane]; };
      if (with_barrier) {
        warp.Lanes(put);
        warp.Lanes(take);
        return;
      }
      warp.Lanes([&](int lane) {
        put(lane);
        take(lane);
      });
    });
  }
};

TEST(HostWarp, AMissingBarrierOfAWarpShowsInEveryOrder) {
  for (int i = 0; i < 50; ++i) {
    for (const bool with_barrier : {true, false}) {
      NextOrder();
      std::vector<int> numbers(64);
      std::iota(numbers.begin(), numbers.end(), 0);
      ASSERT_TRUE(Start("ReverseLanes", Stream{}, ReverseLanesKernel{numbers.data(), with_barrier},
                        {1, 64, 64 * 4, 0, 0})
                      .ok());
      int wrong = 0;
      for (int t = 0; t < 64; ++t) {
        wrong += numbers[static_cast<size_t>(t)] != t / 32 * 32 + 31 - t % 32 ? 1 : 0;
      }
      EXPECT_EQ(wrong > 0, !with_barrier);
    }
  }
}

// Which of two warps comes first.
struct FirstWarpKernel {
  [[maybe_unused]] static constexpr int kThreads = 96;
  int* first;
  template <class Block>
  void operator()(Block& block) const {
    block.Warps([&](auto& warp) {
      if (*first < 0 && warp.index() != 1) *first = warp.index();
    });
  }
};

TEST(HostWarp, EitherOfTwoWarpsComesFirstInSomeOrder) {
  std::set<int> firsts;
  for (int i = 0; i < 100; ++i) {
    NextOrder();
    int first = -1;
    ASSERT_TRUE(Start("FirstWarp", Stream{}, FirstWarpKernel{&first}, {1, 96, 0, 0, 0}).ok());
    firsts.insert(first);
  }
  EXPECT_EQ(firsts, (std::set<int>{0, 2}));
}

struct TogetherKernel {
  [[maybe_unused]] static constexpr int kThreads = 32;
  uint32_t* out;  // [4]
  template <class Block>
  void operator()(Block& block) const {
    block.Warps([&](auto& warp) {
      PerLane<uint32_t> word;
      warp.Lanes([&](int lane) { word[lane] = static_cast<uint32_t>(100 + (lane + 5) % 32); });
      const uint32_t result[4] = {
          warp.Ballot([&](int lane) { return word[lane] < 103; }),
          warp.Min([&](int lane) { return word[lane]; }),
          warp.Max([&](int lane) { return word[lane]; }),
          warp.Shuffle(31, [&](int lane) { return word[lane]; }),
      };
      warp.Lanes([&](int lane) {
        if (lane < 4) out[lane] = result[lane];
      });
    });
  }
};

TEST(HostWarp, LanesGetTogetherWhatTheGpuWouldGiveThem) {
  std::vector<uint32_t> out(4);
  ASSERT_TRUE(Start("Together", Stream{}, TogetherKernel{out.data()}, {1, 32, 0, 0, 0}).ok());
  EXPECT_EQ(out, (std::vector<uint32_t>{7u << 27, 100, 131, 104}));
}

struct ExchangeKernel {
  [[maybe_unused]] static constexpr int kThreads = 32;
  int mask;
  float* out;  // [32]
  template <class Block>
  void operator()(Block& block) const {
    block.Warps([&](auto& warp) {
      PerLane<float> word;
      warp.Lanes([&](int lane) { word[lane] = static_cast<float>(lane); });
      // Writes what it reads of the other lane.
      warp.Exchange(
          mask, [&](int lane) { return word[lane]; },
          [&](int lane, float theirs) { word[lane] = 100 * word[lane] + theirs; });
      warp.Lanes([&](int lane) { out[lane] = word[lane]; });
    });
  }
};

TEST(HostWarp, LanesExchangeWhatTheyHadBefore) {
  for (const int mask : {1, 4, 16, 31}) {
    std::vector<float> out(kLanes);
    ASSERT_TRUE(
        Start("Exchange", Stream{}, ExchangeKernel{mask, out.data()}, {1, 32, 0, 0, 0}).ok());
    for (int lane = 0; lane < kLanes; ++lane) {
      EXPECT_EQ(out[static_cast<size_t>(lane)], static_cast<float>(100 * lane + (lane ^ mask)));
    }
  }
}

// Each block writes a number; the last one adds them up.
struct LastKernel {
  [[maybe_unused]] static constexpr int kThreads = 32;
  int* numbers;  // [blocks]
  uint32_t* arrived;
  int* sums;  // one of each block that was the last
  template <class Block>
  void operator()(Block& block) const {
    block.Phase([&](int thread) {
      if (thread == 0) numbers[block.index()] = 1;
    });
    if (!block.IsLast(arrived)) return;
    block.Phase([&](int thread) {
      if (thread != 0) return;
      int sum = 0;
      for (int64_t i = 0; i < block.blocks(); ++i) sum += numbers[i];
      sums[block.index()] = sum;
    });
  }
};

TEST(HostBlock, OneBlockIsTheLastAndSeesWhatAllOthersWrote) {
  std::set<size_t> lasts;
  for (int i = 0; i < 20; ++i) {
    NextOrder();
    std::vector<int> numbers(7);
    std::vector<int> sums(7);
    uint32_t arrived = 0;
    ASSERT_TRUE(
        Start("Last", Stream{}, LastKernel{numbers.data(), &arrived, sums.data()}, {7, 32, 0, 0, 0})
            .ok());
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0), 7);
    lasts.insert(static_cast<size_t>(std::ranges::find(sums, 7) - sums.begin()));
  }
  EXPECT_GT(lasts.size(), 1u);
}

// Uses an operation of the warp inside a step, or a barrier of the block inside a phase.
struct NestedKernel {
  [[maybe_unused]] static constexpr int kThreads = 32;
  bool in_warp;
  template <class Block>
  void operator()(Block& block) const {
    if (!in_warp) {
      block.Phase([&](int) { block.Phase([](int) {}); });
      return;
    }
    block.Warps([&](auto& warp) {
      warp.Lanes([&](int lane) {
        if (lane == 3) warp.Ballot([](int) { return true; });
      });
    });
  }
};

TEST(HostWarpDeathTest, WhatOneLaneOrThreadCannotDoAloneEndsTheProcess) {
  for (const bool in_warp : {true, false}) {
    EXPECT_DEATH((void)Start("Nested", Stream{}, NestedKernel{in_warp}, {1, 32, 0, 0, 0}),
                 "inside_");
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

TEST(Start, RefusesMemoryThatNoGpuReads) {
#if !__has_builtin(__builtin_clear_padding)
  GTEST_SKIP() << "this compiler cannot clear the padding between arguments";
#endif
  const Stream gpu{.device = Device::kCuda};
  const Plan plan{1, 32, 0, 0, 0};
  // The address sanitizer keeps variables elsewhere, and this here.
  auto* const on_the_stack = static_cast<int*>(__builtin_alloca(sizeof(int)));
  *on_the_stack = -1;
  static int in_the_program = -1;
  const auto on_the_heap = std::make_unique<int>(-1);
  for (const auto& [first, says] :
       {std::pair{on_the_stack, "First: byte 8 of its arguments is an address on the stack"},
        {&in_the_program, "First: byte 8 of its arguments is an address in the program itself"}}) {
    const Status status = Start("First", gpu, FirstKernel{0, 1, first}, plan);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(status.message().starts_with(says)) << status.ToString();
    EXPECT_EQ(*first, -1);
  }
  EXPECT_TRUE(Start("First", gpu, FirstKernel{0, 1, on_the_heap.get()}, plan).ok());
  EXPECT_NE(*on_the_heap, -1);
}

}  // namespace
}  // namespace cuda
}  // namespace janus::kernels
