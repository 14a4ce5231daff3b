#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "common/clock.h"

namespace janus::dataplane {

// Slows the loading of experts for the next epoch while the serving epoch computes. Both want the
// same memory, page cache and cores. After each piece of the load it says how long to pause. It
// compares the time that the instance computes per round with the time before the load: if rounds
// have become slower by more than kSlowdown, pauses become longer, up to kLongestPause times a
// piece. If they have not, or no round has been computed, pauses become shorter, down to none.
// Confined to one thread.
class LoadPacer {
 public:
  // Counters of the serving epoch at this instance.
  struct Busy {
    double seconds = 0;  // computing
    uint64_t rounds = 0;
  };

  // `before`: when the load begins; since the beginning of the epoch. If it has too few rounds to
  // compare with, nothing is slowed.
  explicit LoadPacer(const Busy& before);

  // The pause after a piece that took `piece`. `now`: the counters after it.
  Seconds PauseAfter(Seconds piece, const Busy& now);

  static constexpr double kSlowdown = 1.15;
  static constexpr double kLongestPause = 8;
  static constexpr uint64_t kFewestRounds = 16;  // of a comparison

 private:
  std::optional<double> usual_;  // seconds of a round
  Busy compared_;
  double pause_ = 0;  // in pieces
};

// Returns after `time`, or once a stop is requested.
void Pause(Seconds time, const std::stop_token& stop);

}  // namespace janus::dataplane
