#pragma once

#include <array>
#include <vector>

#include "common/metrics.h"
#include "common/topology.h"

namespace janus::dataplane {

// Upper bounds of histogram buckets, in seconds. For steps: targets lie between 5 and 100 ms.
std::vector<double> StepSecondsBounds();
// For a step's waits: most are a small part of it.
std::vector<double> WaitSecondsBounds();
// For parts of a round, such as a layer's attention or one message.
std::vector<double> RoundSecondsBounds();
// For AEBS, which should be negligible beside the rest of a round.
std::vector<double> AebsSecondsBounds();

// The times of an instance's steps and rounds, over all its epochs; docs/metrics.md describes each.
// Everything is observed when a step ends; a step that is given up adds nothing. One step thread
// observes, any thread reads. Nothing here allocates or locks.
struct StepMetrics {
  struct Exchange {
    Histogram send{RoundSecondsBounds()};
    Histogram receive{RoundSecondsBounds()};
  };
  static constexpr size_t kModes = 3;  // of ExchangeMode
  Exchange& Of(ExchangeMode mode) { return exchange[static_cast<size_t>(mode)]; }

  Histogram step{StepSecondsBounds()};
  Histogram wait_coordinator{WaitSecondsBounds()};  // attention
  Histogram wait_peer{WaitSecondsBounds()};
  std::array<Exchange, kModes> exchange;
  // By module. Attention:
  Histogram attention{RoundSecondsBounds()};
  Histogram shared_experts{RoundSecondsBounds()};  // of models that have some
  Histogram combine{RoundSecondsBounds()};
  // Experts; attention too if it computes the gate:
  Histogram gate{RoundSecondsBounds()};
  Histogram experts{RoundSecondsBounds()};
  Histogram aebs{AebsSecondsBounds()};
};

}  // namespace janus::dataplane
