#pragma once

#include <atomic>
#include <cstdint>

#include "common/metrics.h"

namespace janus::gateway {

// Bytes that the gateway holds for its clients: bodies, prompts, answers, unread output. Requests
// may take three quarters of it. The last quarter is kept for the answers of admitted requests, so
// that under pressure new requests are refused before running ones fail. It counts contents,
// without the allocator's overhead. Thread-safe; outlives its leases.
class MemoryBudget {
 public:
  enum class Use : uint8_t { kRequest, kAnswer };

  // `in_use` shows the bytes held; it must outlive the budget.
  MemoryBudget(int64_t limit_bytes, Gauge& in_use) : limit_(limit_bytes), gauge_(in_use) {}

  int64_t limit(Use use = Use::kAnswer) const {
    return use == Use::kRequest ? limit_ / 4 * 3 : limit_;
  }
  int64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }

 private:
  friend class MemoryLease;
  bool TryTake(int64_t bytes, Use use);
  void Take(int64_t bytes);  // may exceed the limit; < 0 gives back

  const int64_t limit_;
  Gauge& gauge_;
  std::atomic<int64_t> in_use_ = 0;
};

// One holder's share of the budget, given back in the destructor. Thread-compatible.
class MemoryLease {
 public:
  explicit MemoryLease(MemoryBudget& budget) : budget_(&budget) {}
  MemoryLease(MemoryLease&& other) noexcept : budget_(other.budget_), bytes_(other.bytes_) {
    other.bytes_ = 0;
  }
  MemoryLease& operator=(MemoryLease&&) = delete;
  ~MemoryLease() { Set(0); }

  // Sets the bytes held to `bytes`. False, and nothing has changed: the budget has no room for
  // more.
  bool TrySet(int64_t bytes, MemoryBudget::Use use);
  // The same for memory that can no longer be refused: may exceed the limit.
  void Set(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  MemoryBudget* budget_;
  int64_t bytes_ = 0;
};

}  // namespace janus::gateway
