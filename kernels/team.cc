#include "kernels/team.h"

#include <immintrin.h>

#include "common/check.h"

namespace janus::kernels {
namespace {

// All exceptions masked, round to nearest, DAZ (bit 6) and FTZ (bit 15).
constexpr unsigned kFloatMode = 0x1f80u | 0x0040u | 0x8000u;

}  // namespace

ScopedFloatMode::ScopedFloatMode() : saved_(_mm_getcsr()) {
  _mm_setcsr(kFloatMode);
}

ScopedFloatMode::~ScopedFloatMode() {
  _mm_setcsr(saved_);
}

Team::Team(int threads, const WaitPolicy& policy) : policy_(policy) {
  JANUS_CHECK(threads >= 1 && threads <= 256, threads);
  threads_.reserve(static_cast<size_t>(threads - 1));
  for (int part = 1; part < threads; ++part) {
    threads_.emplace_back([this, part] { Work(part); });
  }
}

Team::~Team() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  started_.Ring();
}

void Team::RunTask(Task task) {
  const ScopedFloatMode mode;
  const auto others = static_cast<uint32_t>(threads_.size());
  if (others == 0) {
    task.call(task.object, 0, 1);
    return;
  }
  task_ = task;
  pending_.store(others, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  started_.Ring();
  task.call(task.object, 0, size());
  WaitFor(ended_, policy_, MonotonicTime::max(),
          [this] { return pending_.load(std::memory_order_acquire) == 0; });
}

void Team::Work(int part) {
  const ScopedFloatMode mode;
  for (uint32_t seen = 0;; ++seen) {
    WaitFor(started_, policy_, MonotonicTime::max(),
            [&] { return generation_.load(std::memory_order_acquire) != seen; });
    if (stop_) return;
    task_.call(task_.object, part, size());
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) ended_.Ring();
  }
}

}  // namespace janus::kernels
