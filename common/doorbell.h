#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/clock.h"

namespace janus {

// How a thread waits: spin for `spin`, then give the core away `yields` times, then sleep. With
// more waiting threads than cores spinning takes the core from the very peer that is awaited (8
// spinning processes on 2 cores: milliseconds per hop; yielding: microseconds), so spin is 0 there.
struct WaitPolicy {
  std::chrono::microseconds spin{0};
  int yields = 64;

  // Spins for 50 us, and only where this process may use a core for every one of `threads`; a
  // worker measures instead (wait_policy.h).
  static WaitPolicy ForThreads(int threads);
};

// An event count in one word that may lie in memory shared between processes. Writers publish, then
// Ring(); a waiter observes, checks what it waits for, and sleeps only if nothing was rung since.
// Thread-safe; all-zero memory is a valid Doorbell.
class Doorbell {
 public:
  void Ring();
  uint32_t Observe() const { return rung_.load(std::memory_order_acquire); }
  // Returns when rung since `observed`, at the deadline, or for no reason.
  void Sleep(uint32_t observed, MonotonicTime deadline);

 private:
  std::atomic<uint32_t> rung_{0};
  std::atomic<uint32_t> sleepers_{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(Doorbell) == 8);

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The one waiting primitive: returns ready(), which became true before `deadline` or did not.
// `ready` is called often and from this thread only; whatever makes it true must ring the bell
// afterwards.
template <class Ready>
bool WaitFor(Doorbell& bell, const WaitPolicy& policy, MonotonicTime deadline, Ready&& ready) {
  if (ready()) return true;
  if (policy.spin.count() > 0) {
    const MonotonicTime spin_end = MonotonicClock::now() + policy.spin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (ready()) return true;
        CpuRelax();
      }
    } while (MonotonicClock::now() < spin_end);
  }
  for (int i = 0; i < policy.yields; ++i) {
    if (ready()) return true;
    sched_yield();
  }
  for (;;) {
    const uint32_t observed = bell.Observe();
    if (ready()) return true;
    if (MonotonicClock::now() >= deadline) return false;
    bell.Sleep(observed, deadline);
  }
}

}  // namespace janus
