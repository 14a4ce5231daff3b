#include "common/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "common/wait_policy.h"

namespace janus {

WaitPolicy WaitPolicy::ForThreads(int threads) {
  return PolicyFor(threads, UsableCores(), std::chrono::microseconds(50));
}

void Doorbell::Ring() {
  // Sequentially consistent with Sleep: either the sleeper's futex call sees the new value, or we
  // see the sleeper.
  rung_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, &rung_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Doorbell::Sleep(uint32_t observed, MonotonicTime deadline) {
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what steady_clock counts.
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
  timespec until{};
  until.tv_sec = static_cast<time_t>(since_boot.count() / 1'000'000'000);
  until.tv_nsec = static_cast<long>(since_boot.count() % 1'000'000'000);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &rung_, FUTEX_WAIT_BITSET, observed, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace janus
