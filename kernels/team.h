#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "common/doorbell.h"

namespace janus::kernels {

// Sets the floating-point mode every kernel runs in and restores the former one when it ends:
// round to nearest, subnormals read and written as zero, no traps.
class ScopedFloatMode {
 public:
  ScopedFloatMode();
  ~ScopedFloatMode();
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;

 private:
  unsigned saved_;
};

// A fixed set of compute threads for one commanding thread. The commanding thread is part 0; with
// one thread Run is a plain call. Waiting is common/doorbell.h's: spin for a bound, yield, sleep;
// no spinning where the threads outnumber the machine's cores. Confined to one commanding thread at
// a time; the destructor joins the threads.
class Team {
 public:
  // threads: 1..256, the commanding thread included.
  explicit Team(int threads) : Team(threads, WaitPolicy::ForThreads(threads)) {}
  // For a team that shares the machine's cores with other threads.
  Team(int threads, const WaitPolicy& policy);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls fn(part, parts) once for every part 0..size()-1, each on its own thread and in the
  // kernels' float mode, and returns when all have returned; what they wrote is then visible here.
  // Does not allocate. `fn` must not throw and must not call Run.
  template <class Fn>
  void Run(Fn&& fn) {
    using Callable = std::remove_reference_t<Fn>;
    RunTask(
        {const_cast<void*>(static_cast<const void*>(&fn)), [](void* object, int part, int parts) {
           (*static_cast<Callable*>(object))(part, parts);
         }});
  }

  // fn(0, 1) on the calling thread, in the kernels' float mode: for work that is not worth waking
  // the others for. A kernel's bits do not depend on which of the two ran it.
  template <class Fn>
  static void RunAlone(Fn&& fn) {
    const ScopedFloatMode mode;
    fn(0, 1);
  }

 private:
  struct Task {
    void* object = nullptr;
    void (*call)(void*, int, int) = nullptr;
  };

  void RunTask(Task task);
  void Work(int part);

  // Constant after construction.
  WaitPolicy policy_;
  // Written by the commanding thread before it publishes a new `generation_` (release), read by the
  // others after they saw it (acquire).
  Task task_;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> generation_{0};
  Doorbell started_;
  // Parts of this generation that have not ended; their decrements (release) publish their writes.
  alignas(64) std::atomic<uint32_t> pending_{0};
  Doorbell ended_;
  std::vector<std::jthread> threads_;
};

// The half-open part of [0, count) that belongs to `part` of `parts`: contiguous, in order, sizes
// differing by at most one.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
constexpr Range PartOf(int64_t count, int part, int parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

}  // namespace janus::kernels
