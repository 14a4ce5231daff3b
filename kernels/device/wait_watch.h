#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "common/clock.h"
#include "common/mutex.h"

namespace janus::kernels {

// Watches for how long hosts wait for a device. A device that hangs reports no error, so a host
// would wait for it for ever.
//
// Thread-safe.
class WaitWatch {
 public:
  // Called once, from the watch's own thread, when a host has waited for longer than `most`: for
  // what, and for how long by then. Time in which the whole process stood still does not count
  // towards `most`, but is part of the reported time.
  using OnHang = std::function<void(std::string_view what, Seconds so_long)>;
  WaitWatch(Seconds most, OnHang on_hang);
  // No host may be waiting.
  ~WaitWatch();
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  // Exists while the host waits for `what`, a literal, on one thread. Without a watch it does
  // nothing.
  class Wait {
   public:
    Wait(WaitWatch* watch, const char* what);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    friend class WaitWatch;
    WaitWatch* const watch_;
    const char* const what_;
    MonotonicTime begin_;
    int seen_ = 0;  // look-ups of the watch that found it
    // Among those under way.
    Wait* before_ = nullptr;
    Wait* after_ = nullptr;
  };

 private:
  void Watch();

  const Seconds most_;
  const OnHang on_hang_;
  Mutex mu_;
  CondVar ends_;
  Wait* waits_ JANUS_GUARDED_BY(mu_) = nullptr;
  bool is_ending_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread thread_;  // destroyed first
};

}  // namespace janus::kernels
