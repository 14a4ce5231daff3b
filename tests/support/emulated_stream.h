#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "kernels/device/context.h"
#include "tests/support/random.h"

namespace janus::kernels {

// A device's stream for tests: runs its steps in order on a separate thread, behind its caller by
// random times from the seed. A failing step is the last, as on a GPU: later ones are dropped, and
// the next wait or step reports the failure.
//
// Thread-safe.
class EmulatedStream {
 public:
  // A step gets its own number.
  using Step = std::function<Status(uint64_t number)>;

  explicit EmulatedStream(uint64_t seed) : seed_(seed), random_(seed) {}
  // Waits until everything has run.
  ~EmulatedStream();
  EmulatedStream(const EmulatedStream&) = delete;
  EmulatedStream& operator=(const EmulatedStream&) = delete;

  // Returns the step's number, from 1 on. The first step starts the thread; until then the process
  // may fork.
  Result<uint64_t> Queue(Step step);
  // Queues a step that runs even after a failure.
  void QueueAlways(std::function<void()> step);
  uint64_t queued() const;
  // How many have run, or were dropped.
  uint64_t run() const;
  Status failure() const;
  // Waits until that step, and all before, have run or were dropped.
  Status Await(uint64_t number);
  // Drops steps that have not run, and ends a step that awaits flags.
  void Abandon(Status failure);
  // For a step: waits until each flag has reached its count.
  Status AwaitFlags(const std::vector<FlagCount>& flags);

 private:
  struct Queued {
    Step step;
    bool is_dropped_after_failure;
  };

  uint64_t Push(Queued queued) JANUS_REQUIRES(mu_);
  void Run();
  // Waits a random short time, until more is queued or a caller waits.
  void LagSome() JANUS_REQUIRES(mu_);

  const uint64_t seed_;
  Random random_;  // of the thread
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Queued> steps_ JANUS_GUARDED_BY(mu_);  // that have not begun
  uint64_t queued_ JANUS_GUARDED_BY(mu_) = 0;
  uint64_t run_ JANUS_GUARDED_BY(mu_) = 0;
  int waiting_ JANUS_GUARDED_BY(mu_) = 0;
  bool is_ending_ JANUS_GUARDED_BY(mu_) = false;
  Status failure_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::kernels
