#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/clock.h"

namespace janus::dataplane {

// When the supervisor starts an instance again, and when it takes one for hung. Pure. Confined.

// The instances that ended without being told to. Too many within a minute are no accident: the
// pod itself has to start again, where its platform waits longer and longer between the tries.
class Restarts {
 public:
  static constexpr int kMostEnds = 3;
  static constexpr std::chrono::minutes kWithin{1};

  explicit Restarts(int instances) : restarts_(static_cast<size_t>(instances)) {}

  // Instance `index` has ended. True: it is started again. False: this end is the kMostEnds-th
  // within kWithin.
  bool Ended(int index, MonotonicTime now);
  // How often each was started again.
  const std::vector<uint64_t>& counts() const { return restarts_; }

 private:
  std::vector<uint64_t> restarts_;  // by index
  std::deque<MonotonicTime> ends_;  // the newest ones, of any instance
};

// The questions to /live that an instance has not answered.
class Silences {
 public:
  static constexpr int kMost = 3;

  explicit Silences(int instances) : silent_(static_cast<size_t>(instances)) {}

  // True: this is the kMost-th question in a row without an answer, so the instance hangs.
  bool Asked(int index, bool has_answered);
  // Another process is the instance from now on.
  void Forget(int index) { silent_[static_cast<size_t>(index)] = 0; }

 private:
  std::vector<int> silent_;  // by index, in a row
};

}  // namespace janus::dataplane
