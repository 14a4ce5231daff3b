#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "common/clock.h"

namespace janus {

// How a thread waits: it spins for `spin`, then yields the core `yields` times, then sleeps. With
// more waiting threads than cores, spinning takes the core from the awaited peer. (With 8 spinning
// processes on 2 cores a hop takes milliseconds, with yielding microseconds.) So spin is 0 in that
// case.
struct WaitPolicy {
  std::chrono::microseconds spin{0};
  int yields = 64;

  // Spins for 50 us if this process may use a core for each of `threads`, otherwise not at all. A
  // worker measures instead (wait_policy.h).
  static WaitPolicy ForThreads(int threads);
};

// An event count in one word, which may lie in memory shared between processes. Writers publish,
// then call Ring(). A waiter observes the count, checks its condition, and sleeps only if no ring
// came since. Thread-safe; all-zero memory is a valid Doorbell.
class Doorbell {
 public:
  void Ring();
  uint32_t Observe() const { return rung_.load(std::memory_order_acquire); }
  // Returns if rung since `observed`, at the deadline, or spuriously.
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

// How a waiter sleeps after spinning and yielding. Prepare is called before the last check of the
// condition; any event after Prepare must end Park. Cancel: that check was successful.
class Parker {
 public:
  virtual ~Parker() = default;
  virtual void Prepare() = 0;
  virtual void Park(MonotonicTime deadline) = 0;  // may return early, spuriously
  virtual void Cancel() {}
};

// The only waiting primitive. Returns ready(): true if it became true before `deadline`. `ready` is
// called often, and from this thread only.
template <class Ready>
bool WaitUntil(Parker& parker, const WaitPolicy& policy, MonotonicTime deadline, Ready&& ready) {
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
    parker.Prepare();
    const bool is_ready = ready();
    if (is_ready || MonotonicClock::now() >= deadline) {
      parker.Cancel();
      return is_ready;
    }
    parker.Park(deadline);
  }
}

// Sleeps on a doorbell. Code that makes `ready` true must ring it afterwards.
class DoorbellParker final : public Parker {
 public:
  explicit DoorbellParker(Doorbell& bell) : bell_(bell) {}
  void Prepare() override { observed_ = bell_.Observe(); }
  void Park(MonotonicTime deadline) override { bell_.Sleep(observed_, deadline); }

 private:
  Doorbell& bell_;
  uint32_t observed_ = 0;
};

template <class Ready>
bool WaitFor(Doorbell& bell, const WaitPolicy& policy, MonotonicTime deadline, Ready&& ready) {
  DoorbellParker parker(bell);
  return WaitUntil(parker, policy, deadline, std::forward<Ready>(ready));
}

}  // namespace janus
