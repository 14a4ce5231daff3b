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

// How long prompt positions take beside the decode rows of a step. Few of them cost more each: a
// step with prompts reads experts that decoding alone would not, however few the positions are. So
// rates are kept by size, in powers of two. A position costs more the longer its prompt has become,
// so a rate is that of the last 8 steps of its size, and one that has not been seen for 128 is
// forgotten: what is larger than what fits is then tried again, in fewer than one step of a
// hundred. Confined.
class PrefillRate {
 public:
  void Add(int rows, double seconds);
  bool empty() const { return by_size_.empty(); }
  // The most positions that some size's rate fits into so many seconds. Where not even one fits, it
  // is computed all the same, and with it as many as cost a quarter more than it alone.
  double Fit(double seconds) const;

 private:
  struct Rate {
    RunningMedian seconds{8};  // per row
    int64_t last = 0;          // when it was seen, in steps recorded
  };

  std::map<int, Rate> by_size_;  // floor(log2(rows)) ->
  int64_t recorded_ = 0;
};

// The rows of all instances in one step.
struct StepRows {
  int decode = 0;         // of the instance with most
  int prefill = 0;        // of the instance with most
  int prefill_total = 0;  // of all: the experts compute them in one pass
};

// Prompt positions that a step may compute.
struct PrefillBudget {
  int each = 0;   // at one instance
  int total = 0;  // at all of them
};

// What a step will take, judged by the last 32 steps of its kind (phase, rows/64), and how fast
// prompts are computed. Confined.
class StepTimes {
 public:
  void Record(const StepRows& rows, Seconds took);

  // Median of the kind; where it has not been seen, of the nearest smaller known kind of the phase,
  // else of the nearest larger one; 0 before any step of the phase was.
  Seconds Predict(int decode_rows, int prefill_rows) const;

  // What fits into a step of `target` beside the decode rows. Prompts always move on: where
  // decoding leaves nothing they have `least_share` of its time, and one position at least. Never
  // more than `most` at each of `m` instances. Where prompts lay at several instances before and
  // are now at one, the bound of each is the cautious one; the other way round it is that of all.
  PrefillBudget Prefill(Seconds target, int decode_rows, double least_share, int most, int m) const;

 private:
  std::map<std::pair<bool, int>, RunningMedian> by_kind_;  // (has prefill, rows/64)
  PrefillRate of_one_;
  PrefillRate of_all_;
};

}  // namespace janus::dataplane
