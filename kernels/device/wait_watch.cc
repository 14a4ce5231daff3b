#include "kernels/device/wait_watch.h"

#include <utility>

namespace janus::kernels {

WaitWatch::WaitWatch(Seconds most, OnHang on_hang)
    : most_(most), on_hang_(std::move(on_hang)), thread_([this] { Watch(); }) {}

WaitWatch::~WaitWatch() {
  const MutexLock lock(mu_);
  is_ending_ = true;
  ends_.NotifyAll();
}

WaitWatch::Wait::Wait(WaitWatch* watch, const char* what) : watch_(watch), what_(what) {
  if (watch_ == nullptr) return;
  begin_ = MonotonicClock::now();
  const MutexLock lock(watch_->mu_);
  after_ = watch_->waits_;
  if (after_ != nullptr) after_->before_ = this;
  watch_->waits_ = this;
}

WaitWatch::Wait::~Wait() {
  if (watch_ == nullptr) return;
  const MutexLock lock(watch_->mu_);
  (before_ == nullptr ? watch_->waits_ : before_->after_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
}

// Polls from time to time, so that a wait need not wake it. It counts how often it has seen a wait,
// because the clock goes on while a process is stopped (SIGSTOP, a frozen cgroup, a debugger).
void WaitWatch::Watch() {
  constexpr int kLookUps = 8;
  const auto look_up = std::chrono::duration_cast<MonotonicClock::duration>(most_ / kLookUps);
  const char* what = nullptr;
  Seconds so_long{0};
  {
    const MutexLock lock(mu_);
    while (what == nullptr) {
      if (is_ending_) return;
      const MonotonicTime now = MonotonicClock::now();
      for (Wait* wait = waits_; wait != nullptr; wait = wait->after_) {
        if (++wait->seen_ <= kLookUps) continue;
        what = wait->what_;
        so_long = now - wait->begin_;
      }
      if (what == nullptr) ends_.WaitUntil(mu_, now + look_up);
    }
  }
  on_hang_(what, so_long);
}

}  // namespace janus::kernels
