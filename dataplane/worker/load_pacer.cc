#include "dataplane/worker/load_pacer.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace janus::dataplane {

LoadPacer::LoadPacer(const Busy& before) : compared_(before) {
  if (before.rounds < kFewestRounds) return;
  usual_ = before.seconds / static_cast<double>(before.rounds);
}

Seconds LoadPacer::PauseAfter(Seconds piece, const Busy& now) {
  if (!usual_) return Seconds(0);
  const bool is_other_epoch = now.rounds < compared_.rounds;
  const uint64_t rounds = is_other_epoch ? 0 : now.rounds - compared_.rounds;
  if (rounds == 0) {
    pause_ /= 2;
    if (is_other_epoch) compared_ = now;
  } else if (rounds >= kFewestRounds) {
    const double each = (now.seconds - compared_.seconds) / static_cast<double>(rounds);
    compared_ = now;
    pause_ = each > kSlowdown * *usual_ ? std::min(2 * pause_ + 1, kLongestPause) : pause_ / 2;
  }
  // Fewer rounds than that: the pause stays until there are enough.
  if (pause_ < 1.0 / 16) pause_ = 0;
  return pause_ * piece;
}

void Pause(Seconds time, const std::stop_token& stop) {
  if (time <= Seconds(0)) return;
  std::mutex mu;
  std::condition_variable_any stopped;
  std::unique_lock lock(mu);
  stopped.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace janus::dataplane
