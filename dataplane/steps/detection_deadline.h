#pragma once

#include <array>
#include <cstdint>

#include "common/clock.h"

namespace janus::dataplane {

// How long a round is waited for before it is missed, by how long rounds took lately:
//
//   max(least, 8 x the 99th percentile, 2 x the longest) of the last kWindow waits, at most `most`.
//
// Too short costs a repeated step and no token, too long leaves everybody standing behind a lost
// message. The longest wait counts because what is rare (a long prompt beside much decoding) does
// not show in a percentile; that a step given up counts as one twice as long as the deadline was
// makes the deadline four times as long from repeat to repeat, until the round fits. Before kWindow
// waits nothing is known: `most`.
//
// Confined to the step thread.
class DetectionDeadline {
 public:
  static constexpr int kWindow = 1024;

  // least >= most: constant `most`.
  DetectionDeadline(Seconds least, Seconds most);

  // A round came after so long.
  void OnArrival(Seconds waited);
  // A step was given up, whoever missed its round: members whose deadlines grew apart would miss
  // the same rows in turn. Of the few repeats that there are (AttentionOptions::most_repeats) the
  // last ones must have `most`: what takes no longer is slow and not lost.
  void OnGivenUp() { OnArrival(2 * value_); }

  Seconds value() const { return value_; }

 private:
  void Recompute();

  const Seconds least_;
  const Seconds most_;
  Seconds value_;
  std::array<float, kWindow> waits_{};  // s, a ring
  std::array<float, kWindow> sorted_{};
  int64_t count_ = 0;
};

}  // namespace janus::dataplane
