#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "common/clock.h"

namespace janus::dataplane {

// The running median of the last `window` values, at most 32. Confined.
class RunningMedian {
 public:
  static constexpr int kMost = 32;
  explicit RunningMedian(int window = kMost) : window_(window) {}

  void Add(double value);
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ >= window_; }
  double value() const;  // 0 when empty

 private:
  int window_;
  std::array<double, kMost> ring_{};
  int64_t count_ = 0;
};

// How long prompt positions take beside the decode rows of a step. Few positions cost more each,
// because a step with any prompt reads experts that decoding alone would not read. So rates are
// kept by size, in powers of two. A position costs more the longer its prompt has become. So a rate
// comes from the last 8 steps of its size, and is forgotten if its size has not occurred for 128
// steps. Sizes above what fits are then tried again, in fewer than one step of a hundred. Confined.
class PrefillRate {
 public:
  void Add(int rows, double seconds);
  bool empty() const { return by_size_.empty(); }
  // The most positions that fit into so many seconds by the rate of some size. If not even one
  // fits, one is computed all the same, together with as many as cost a quarter more than one
  // alone.
  double Fit(double seconds) const;

 private:
  struct Rate {
    RunningMedian seconds{8};  // per row
    int64_t last = 0;          // the step, counted in Add calls, that last had this size
  };

  std::map<int, Rate> by_size_;  // floor(log2(rows)) ->
  int64_t recorded_ = 0;
};

// The rows of all instances in one step.
struct StepRows {
  int decode = 0;         // of the instance with most
  int prefill = 0;        // of the instance with most
  int prefill_total = 0;  // of all instances: the experts compute them in one pass
};

// Prompt positions that a step may compute.
struct PrefillBudget {
  int each = 0;   // at one instance
  int total = 0;  // at all of them
};

// Predicts how long a step takes from the last 32 steps of its kind (phase, rows/64), and how fast
// prompts are computed. Confined.
class StepTimes {
 public:
  void Record(const StepRows& rows, Seconds took);

  // Median of the kind. If the kind has not occurred: that of the nearest smaller known kind of the
  // phase, otherwise of the nearest larger one. 0 before any step of the phase.
  Seconds Predict(int decode_rows, int prefill_rows) const;

  // What fits into a step of `target` beside the decode rows. Prompts always advance: if decoding
  // leaves no time, they get `least_share` of its time, and at least one position. Each of `m`
  // instances gets at most `most`. If prompts were at several instances before and are now at one,
  // `each` is the cautious bound. In the opposite case `total` is.
  PrefillBudget Prefill(Seconds target, int decode_rows, double least_share, int most, int m) const;

 private:
  std::map<std::pair<bool, int>, RunningMedian> by_kind_;  // (has prefill, rows/64)
  PrefillRate of_one_;
  PrefillRate of_all_;
};

}  // namespace janus::dataplane
