#include "kernels/team.h"

#include <immintrin.h>
#include <sched.h>

#include "common/check.h"

namespace janus::kernels {
namespace {

// All exceptions masked, round to nearest, DAZ (bit 6) and FTZ (bit 15).
constexpr unsigned kFloatMode = 0x1f80u | 0x0040u | 0x8000u;

// About 50 us of pauses: a step's kernels follow one another far faster than that.
constexpr int kSpins = 2000;
constexpr int kYields = 64;

// Returns once `word` differs from `old`.
uint32_t AwaitChange(const std::atomic<uint32_t>& word, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (const uint32_t now = word.load(std::memory_order_acquire); now != old) return now;
    _mm_pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (const uint32_t now = word.load(std::memory_order_acquire); now != old) return now;
    sched_yield();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

ScopedFloatMode::ScopedFloatMode() : saved_(_mm_getcsr()) {
  _mm_setcsr(kFloatMode);
}

ScopedFloatMode::~ScopedFloatMode() {
  _mm_setcsr(saved_);
}

Team::Team(int threads) {
  JANUS_CHECK(threads >= 1 && threads <= 256, threads);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  spins_ = threads <= cores ? kSpins : 0;
  threads_.reserve(static_cast<size_t>(threads - 1));
  for (int part = 1; part < threads; ++part) {
    threads_.emplace_back([this, part] { Work(part); });
  }
}

Team::~Team() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
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
  generation_.notify_all();
  task.call(task.object, 0, size());
  uint32_t left = pending_.load(std::memory_order_acquire);
  while (left != 0) left = AwaitChange(pending_, left, spins_);
}

void Team::Work(int part) {
  const ScopedFloatMode mode;
  uint32_t seen = 0;
  while (true) {
    seen = AwaitChange(generation_, seen, spins_);
    if (stop_) return;
    task_.call(task_.object, part, size());
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace janus::kernels
