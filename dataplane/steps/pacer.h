#pragma once

#include <cstdint>
#include <span>

#include "common/clock.h"
#include "common/statistics.h"

// When a result may be shown, of instances that stand for other devices than those they compute on
// (docs/timed-devices.md). In service there is no pacer, and a result is shown once it is there.
//
// A pacer is one device on a timeline of its own: it does one thing after the other, each from the
// moment at which the device is free and the inputs are there. An instance computes, asks when the
// result is due, waits until then, and says when it went on (Show). The times of a timeline do not
// depend on how late the waiting thread woke up, as long as that is no more than kLate.
//
// Confined to the step thread. Pure: time is passed in.
namespace janus::dataplane {

// A result that is shown later than this after it was due has overrun: the real computation took
// longer than the modelled time. The timeline then goes on from the moment at which it was shown.
inline constexpr std::chrono::milliseconds kLate{2};
// A step that begins no later than this after the one before was due to end follows it at once.
inline constexpr std::chrono::milliseconds kPause{5};

struct PacerCounts {
  uint64_t waits = 0;     // results that were shown
  uint64_t overruns = 0;  // of these, too late
};

// Adds what was counted in the epochs before.
inline void Report(const PacerCounts& counts, const PacerCounts& before,
                   InstanceStatistics& statistics) {
  statistics.timed_waits = before.waits + counts.waits;
  statistics.timed_overruns = before.overruns + counts.overruns;
}

// Shows results of either side.
class Pacer {
 public:
  virtual ~Pacer() = default;
  // What was due at `due` is shown at `now`. Returns from when on it counts as shown: `due`, or
  // `now` if it has overrun.
  virtual MonotonicTime Show(MonotonicTime due, MonotonicTime now) = 0;
  virtual PacerCounts counts() const = 0;
};

// Rows of a part of a step at one attention instance.
struct PacedRows {
  int decode = 0;
  int64_t decode_keys = 0;  // sum over these rows
  int prompt = 0;
  int64_t prompt_keys = 0;  // sum over these rows

  friend PacedRows operator+(const PacedRows& a, const PacedRows& b) {
    return {a.decode + b.decode, a.decode_keys + b.decode_keys, a.prompt + b.prompt,
            a.prompt_keys + b.prompt_keys};
  }
};

// With several micro-batches, the work of one overlaps that of the others, but for the first round
// of a step on its way out and the last one on its way back. In the model that is stood for these
// are rounds of one layer, not of all the layers that a served one stands for. So what follows the
// first round begins when one layer of it is done, and what follows the last one ends one layer
// after it. `is_first`, `is_last`: such a round, of a step with several micro-batches.

// Of an attention instance, for its life. Each call returns when the result is due; a time in the
// past is due at once.
class AttentionPacer : public Pacer {
 public:
  virtual void BeginStep(MonotonicTime now) = 0;
  // The attention of an MoE layer. `inputs`: when the contributions of the layer before had come.
  virtual MonotonicTime Attend(const PacedRows& rows, MonotonicTime inputs, bool is_first) = 0;
  // The shared experts of the layer.
  virtual MonotonicTime Share(int rows) = 0;
  // Layers without routed experts, and the output head, over all rows of the step.
  virtual MonotonicTime EndStep(const PacedRows& rows, MonotonicTime inputs) = 0;
};

// Of an expert instance, for an epoch. The calls of a round follow each other in this order, with
// Show between the last two. The exchange is modelled here: both directions are links that carry
// one round after the other.
class ExpertPacer : public Pacer {
 public:
  // The rows of a round, of all attention instances, the last of which left at `sent`. Returns when
  // they have come.
  virtual MonotonicTime Receive(int rows, MonotonicTime sent, bool is_first) = 0;
  // What a round computes.
  struct Work {
    int layer = 0;                      // of the MoE layers
    std::span<const int> rows_of_held;  // for each expert that this instance holds (each replica)
    std::span<const uint16_t> routed;   // [rows, K]: what the rows chose
  };
  // The kernels. Returns when the result is due.
  virtual MonotonicTime Compute(const Work& work, bool is_last) = 0;
  // The contributions leave at `shown`. Returns when they have come to the attention instances.
  virtual MonotonicTime Send(MonotonicTime shown, bool is_last) = 0;
};

}  // namespace janus::dataplane
