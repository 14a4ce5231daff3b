#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "common/clock.h"

namespace janus::dataplane {

// The running median of a bounded window. Confined.
class RunningMedian {
 public:
  void Add(double value);
  bool empty() const { return count_ == 0; }
  double value() const;  // of the last 32 added; 0 when empty

 private:
  static constexpr int kWindow = 32;
  std::array<double, kWindow> ring_{};
  int64_t count_ = 0;
};

// What a step will take, judged by the last 32 steps of its kind (phase, rows/64), and how fast
// prompts are computed. Confined.
class StepTimes {
 public:
  void Record(int decode_rows, int prefill_rows, Seconds took);

  // Median of the kind; where it has not been seen, of the nearest smaller known kind of the phase,
  // else of the nearest larger one; 0 before any step of the phase was.
  Seconds Predict(int decode_rows, int prefill_rows) const;

  // Prompt positions that fit into a step of `target` beside the decode rows; at least `least`, so
  // that prompts always move on, and never more than `most`.
  int PrefillRows(Seconds target, int decode_rows, int least, int most) const;

 private:
  std::map<std::pair<bool, int>, RunningMedian> by_kind_;  // (has prefill, rows/64)
  RunningMedian seconds_per_prefill_row_;
};

}  // namespace janus::dataplane
