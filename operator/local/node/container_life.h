#pragma once

#include <optional>
#include <string>

#include "common/clock.h"

namespace janus::control {

// Between the end of a container and its next start. The first start after an end is at once; each
// further one waits twice as long as the one before, until it has run for `forgotten_after`
// (Kubernetes, "Pod Lifecycle", "Container restarts"; with shorter pauses, as nobody else's work
// suffers from a process that keeps ending here).
struct RestartPauses {
  Seconds first{1};
  Seconds longest{60};
  Seconds forgotten_after{60};
};

struct ContainerEnd {
  int exit_code = 0;
  int signal = 0;       // 0: by itself
  std::string message;  // its last words
  WallTime started;
  WallTime finished;
};

// One container over its restarts, restartPolicy Always. It is told what happens and says when it
// is to be started. Pure; confined.
class ContainerLife {
 public:
  explicit ContainerLife(RestartPauses pauses) : pauses_(pauses) {}

  // It runs. Every start but the first counts as a restart.
  void Started(MonotonicTime now, WallTime wall);
  // It has ended, or could not be started: then `end.started` is `finished`.
  void Ended(ContainerEnd end, MonotonicTime now);

  bool is_running() const { return running_since_.has_value(); }
  // When to start it; nothing: it runs.
  std::optional<MonotonicTime> start_at() const { return start_at_; }
  // It waits because it keeps ending.
  bool is_pausing(MonotonicTime now) const { return start_at_ && *start_at_ > now; }
  Seconds pause() const { return pause_; }
  int restarts() const { return restarts_; }
  WallTime started() const { return started_; }  // the last time
  const std::optional<ContainerEnd>& last_end() const { return last_end_; }

 private:
  const RestartPauses pauses_;
  std::optional<MonotonicTime> start_at_ = MonotonicTime();
  std::optional<MonotonicTime> running_since_;
  WallTime started_;
  Seconds pause_{0};  // before the next start
  int starts_ = 0;
  int restarts_ = 0;
  std::optional<ContainerEnd> last_end_;
};

}  // namespace janus::control
