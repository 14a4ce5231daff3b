#pragma once

#include <atomic>
#include <cstdint>

#include "common/metrics.h"

namespace janus::gateway {

// Bytes that the gateway holds for its clients: bodies, prompts, answers, output that is not read
// yet. Requests may take three quarters of it; the last quarter is kept for the answers of
// those let in, so that under pressure a new request is refused before one under way fails.
// It counts contents, not what the allocator adds. Thread-safe; outlives its leases.
class MemoryBudget {
 public:
  enum class Use : uint8_t { kRequest, kAnswer };

  // `in_use` follows what is held; must outlive the budget.
  MemoryBudget(int64_t limit_bytes, Gauge& in_use) : limit_(limit_bytes), gauge_(in_use) {}

  int64_t limit(Use use = Use::kAnswer) const {
    return use == Use::kRequest ? limit_ / 4 * 3 : limit_;
  }
  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryLease;
  bool TryTake(int64_t bytes, Use use);
  void Take(int64_t bytes);  // also beyond the limit; < 0 gives back

  const int64_t limit_;
  Gauge& gauge_;
  std::atomic<int64_t> in_use_ = 0;
};

// What one holder has of the budget; gives it back at its end. Thread-compatible.
class MemoryLease {
 public:
  explicit MemoryLease(MemoryBudget& budget) : budget_(&budget) {}
  MemoryLease(MemoryLease&& other) noexcept : budget_(other.budget_), bytes_(other.bytes_) {
    other.bytes_ = 0;
  }
  MemoryLease& operator=(MemoryLease&&) = delete;
  ~MemoryLease() { Set(0); }

  // Holds `bytes` in all. False, and nothing has changed: the budget has no room for more.
  bool TrySet(int64_t bytes, MemoryBudget::Use use);
  // The same for what cannot be refused any more, even beyond the limit.
  void Set(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  MemoryBudget* budget_;
  int64_t bytes_ = 0;
};

}  // namespace janus::gateway
