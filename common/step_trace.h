#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/topology.h"

// What the instances of a service did in one step, one piece of time after the other. For people
// (janusctl trace): nothing is decided by it.
namespace janus {

// The wire has these numbers (proto/topology.proto).
enum class StepWork : uint8_t {
  kHost = 1,       // of the host alone: batches, messages between host and device
  kKernels = 2,    // outside of rounds: embedding, dense layers, output head, sampling
  kAttention = 3,  // of a layer, with its projections and norms
  kSend = 4,       // hands rows, or contributions, over to the transport
  kShared = 5,     // shared experts, while the routed ones compute elsewhere
  kReceive = 6,    // waits for rows, or for contributions
  kCombine = 7,    // adds the contributions
  kGate = 8,       // gate and top-k
  kAebs = 9,       // assigns experts to instances
  kExperts = 10,   // computes the experts
};
inline constexpr int kStepWorks = 10;
std::string_view ToString(StepWork work);

struct StepSpan {
  StepWork work = StepWork::kHost;
  int layer = -1;  // MoE layers only, from 0; -1: outside of rounds
  int micro_batch = 0;
  int64_t took_ns = 0;
  friend bool operator==(const StepSpan&, const StepSpan&) = default;
};

// A step of one instance. A span begins where the one before it ends.
struct StepTrace {
  Role role = Role::kAttention;
  Rank rank{0};
  uint64_t epoch = 0;
  uint64_t step = 0;
  int layers = 0;        // MoE layers of the model; some may be left out below
  int64_t began_ns = 0;  // of the first span, by a clock of the instance's machine
  std::vector<StepSpan> spans;
  friend bool operator==(const StepTrace&, const StepTrace&) = default;
};

// Keeps the spans of `layers` MoE layers in the middle of the step and what lies between them; all
// spans if the step has no more layers.
void KeepMiddle(StepTrace& trace, int layers);

// Keeps one step: the one with most instances, and of those the newest.
void KeepOneStep(std::vector<StepTrace>& traces);

// Moves instances in time, so that all times are by the clock of the first attention instance. The
// clocks of two machines differ. But no message arrives before it was sent: the rounds of a step
// bound the difference from both sides, and the middle is taken. Where no move is needed there is
// none: on one machine the times stay exact. Returns by how much a moved instance may still be
// wrong, at most, in nanoseconds. An instance without a round in common with another stays where it
// is, or is left out if that is at another time than the step of the first attention instance.
int64_t AlignClocks(std::vector<StepTrace>& traces);

}  // namespace janus
