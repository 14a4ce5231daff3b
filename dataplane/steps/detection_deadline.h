#pragma once

#include <array>
#include <cstdint>

#include "common/clock.h"

namespace janus::dataplane {

// How long a member waits for a round before it is missed, from how long recent rounds took:
//
//   max(least, 8 x the 99th percentile, 2 x the longest) of the last kWindow waits, at most `most`.
//
// A deadline that is too short costs a repeated step and no token. One that is too long makes all
// members wait behind a lost message. The longest wait counts because a percentile does not show
// rare rounds, such as a long prompt beside much decoding. A step that is given up counts as a wait
// of twice the deadline. So the deadline grows fourfold from repeat to repeat, until the round
// fits. Before there are kWindow waits, the deadline is `most`.
//
// Confined to the step thread.
class DetectionDeadline {
 public:
  static constexpr int kWindow = 1024;

  // least >= most: constant `most`.
  DetectionDeadline(Seconds least, Seconds most);

  // A round came after so long.
  void OnArrival(Seconds waited);
  // A step was given up, by this member or another. Members with different deadlines would miss the
  // same rows one after the other. The last of the few repeats (AttentionOptions::most_repeats)
  // must use `most`, so that a step that takes less than `most` counts as slow and not as lost.
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
