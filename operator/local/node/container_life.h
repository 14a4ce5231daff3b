#pragma once

#include <optional>
#include <string>

#include "common/clock.h"

namespace janus::control {

// Pauses between the end of a container and its next start. The first restart is immediate. Each
// further pause is twice the last, until the container has run for `forgotten_after` (Kubernetes,
// "Pod Lifecycle", "Container restarts"). Pauses are shorter than Kubernetes', since here a
// crashing process disturbs no other user.
struct RestartPauses {
  Seconds first{1};
  Seconds longest{60};
  Seconds forgotten_after{60};
};

struct ContainerEnd {
  int exit_code = 0;
  int signal = 0;       // 0: ended by itself
  std::string message;  // its last words
  WallTime started;
  WallTime finished;
};

// Tracks one container over its restarts (restartPolicy Always). The caller reports starts and
// ends, and reads when to start it next. Pure; confined.
class ContainerLife {
 public:
  explicit ContainerLife(RestartPauses pauses) : pauses_(pauses) {}

  // It has started. Every start after the first counts as a restart.
  void Started(MonotonicTime now, WallTime wall);
  // It has ended, or failed to start: then `end.started` equals `finished`.
  void Ended(ContainerEnd end, MonotonicTime now);

  bool is_running() const { return running_since_.has_value(); }
  // When to start it; nothing: it is running.
  std::optional<MonotonicTime> start_at() const { return start_at_; }
  // Waiting after repeated ends.
  bool is_pausing(MonotonicTime now) const { return start_at_ && *start_at_ > now; }
  Seconds pause() const { return pause_; }
  int restarts() const { return restarts_; }
  WallTime started() const { return started_; }  // last start
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
