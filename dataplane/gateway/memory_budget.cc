#include "dataplane/gateway/memory_budget.h"

namespace janus::gateway {

bool MemoryBudget::TryTake(int64_t bytes, Use use) {
  int64_t held = in_use_.load(std::memory_order_relaxed);
  do {
    if (held + bytes > limit(use)) return false;
  } while (!in_use_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  gauge_.Add(static_cast<double>(bytes));
  return true;
}

void MemoryBudget::Take(int64_t bytes) {
  in_use_.fetch_add(bytes, std::memory_order_relaxed);
  gauge_.Add(static_cast<double>(bytes));
}

bool MemoryLease::TrySet(int64_t bytes, MemoryBudget::Use use) {
  if (bytes > bytes_) {
    if (!budget_->TryTake(bytes - bytes_, use)) return false;
    bytes_ = bytes;
  } else {
    Set(bytes);
  }
  return true;
}

void MemoryLease::Set(int64_t bytes) {
  if (bytes == bytes_) return;
  budget_->Take(bytes - bytes_);
  bytes_ = bytes;
}

}  // namespace janus::gateway
