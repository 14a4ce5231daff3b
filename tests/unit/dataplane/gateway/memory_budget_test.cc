#include "dataplane/gateway/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace janus::gateway {
namespace {

using Use = MemoryBudget::Use;

TEST(MemoryBudget, KeepsTheLastQuarterForAnswers) {
  Gauge gauge;
  MemoryBudget budget(100, gauge);
  MemoryLease request(budget);
  EXPECT_FALSE(request.TrySet(76, Use::kRequest));
  EXPECT_EQ(budget.in_use(), 0);
  EXPECT_TRUE(request.TrySet(75, Use::kRequest));
  MemoryLease other(budget);
  EXPECT_FALSE(other.TrySet(1, Use::kRequest));
  EXPECT_TRUE(request.TrySet(100, Use::kAnswer));
  EXPECT_FALSE(request.TrySet(101, Use::kAnswer));
  EXPECT_EQ(gauge.value(), 100);
}

TEST(MemoryBudget, ShrinkingIsNeverRefused) {
  Gauge gauge;
  MemoryBudget budget(100, gauge);
  MemoryLease lease(budget);
  lease.Set(300);  // beyond the limit: the memory is in use already
  EXPECT_EQ(budget.in_use(), 300);
  EXPECT_TRUE(lease.TrySet(200, Use::kRequest));
  EXPECT_EQ(budget.in_use(), 200);
}

TEST(MemoryBudget, ALeaseGivesBackOnceWhoeverEndsItsLife) {
  Gauge gauge;
  MemoryBudget budget(100, gauge);
  {
    MemoryLease first(budget);
    EXPECT_TRUE(first.TrySet(40, Use::kRequest));
    const MemoryLease second(std::move(first));
    EXPECT_EQ(second.bytes(), 40);
    EXPECT_EQ(budget.in_use(), 40);
  }
  EXPECT_EQ(budget.in_use(), 0);
  EXPECT_EQ(gauge.value(), 0);
}

TEST(MemoryBudget, ThreadsTogetherNeverPassTheLimit) {
  Gauge gauge;
  MemoryBudget budget(1000, gauge);
  std::atomic<bool> passed = false;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          MemoryLease lease(budget);
          (void)lease.TrySet(300, Use::kAnswer);
          if (budget.in_use() > 1000) passed = true;
        }
      });
    }
  }
  EXPECT_FALSE(passed);
  EXPECT_EQ(budget.in_use(), 0);
  EXPECT_EQ(gauge.value(), 0);
}

}  // namespace
}  // namespace janus::gateway
