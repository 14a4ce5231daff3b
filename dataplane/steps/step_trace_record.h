#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/step_trace.h"

namespace janus::dataplane {

// The most timings of a layer at any instance: at an expert instance each round has two for every
// sender, and five more.
inline int MostSpansOfLayer(const Topology& topology) {
  return topology.micro_batches * (2 * topology.m() + 5);
}

// An instance's record of how it spent its newest steps, for people (common/step_trace.h). It keeps
// every sixteenth step: the number of the step decides, so all instances keep the same ones. Two
// are kept, as instances end a step at different times.
//
// Of a step that is kept, each timing costs two writes to memory that is there already; of the
// others, a comparison. A step that is given up is not kept.
//
// Enter, BeginStep, Enters, EndTiming, Took and EndStep belong to the step thread; Read is
// thread-safe.
class StepTraceRecord {
 public:
  static constexpr uint64_t kEvery = 16;

  struct Epoch {
    Role role = Role::kAttention;
    Rank rank{0};
    uint64_t number = 0;
    int layers = 0;  // MoE layers
    // Of a layer at the instance that has most, of any role; equal at all members of an epoch.
    int most_of_layer = 1;
    size_t most_of_step = 0;  // here
  };
  // Call it before the first step of an epoch. Allocates.
  void Enter(const Epoch& epoch);

  void BeginStep(uint64_t step, MonotonicTime at);
  // The timings that end from now on belong to a round; layer -1: to none.
  void Enters(int layer, int micro_batch) {
    layer_ = layer;
    micro_batch_ = micro_batch;
  }
  // A timing ends. More than Epoch::most_of_step are left out.
  void EndTiming();
  // What the timings of the step were, in their order.
  void Took(StepWork work, Seconds took);
  void EndStep();

  // The kept steps, each with as many whole layers as have room in its share of `most` spans; at
  // least with one. Empty for 0.
  std::vector<StepTrace> Read(size_t most) const;

 private:
  Epoch epoch_;
  bool is_kept_ = false;  // the running step
  int layer_ = -1;
  int micro_batch_ = 0;
  size_t took_ = 0;
  StepTrace running_;

  mutable Mutex mu_;
  int most_of_layer_ JANUS_GUARDED_BY(mu_) = 1;
  std::array<StepTrace, 2> kept_ JANUS_GUARDED_BY(mu_);  // without spans: none yet
  size_t next_ JANUS_GUARDED_BY(mu_) = 0;                // is overwritten next
};

}  // namespace janus::dataplane
