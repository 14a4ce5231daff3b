#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/statistics.h"
#include "common/status.h"
#include "controllers/replicas/activations.h"

namespace janus::controllers {

// The sampled rounds of a running service, from which its placement learns (docs/placement.md).

struct WindowRound {
  double time_seconds = 0;  // of the answer that brought it
  RoutedRound round;
};

// The newest rounds, oldest first. Cheap to copy: rounds are shared and constant.
using RoutingWindow = std::vector<std::shared_ptr<const WindowRound>>;

struct WindowBounds {
  double age_seconds = 3600;          // older rounds are dropped
  size_t most_ids = size_t{8} << 20;  // of all rounds together; 16 MiB
};

// Adds the rounds of an answer that came at `now_seconds`. A round that is in the window already is
// not added again. Drops what exceeds the bounds, the oldest first. Pure.
void AddRounds(std::span<const RoutedRound> rounds, double now_seconds, const WindowBounds& bounds,
               RoutingWindow& window);

// Each layer needs as many rounds as this: a third of them judges a placement.
inline constexpr int kFewestRounds = 12;

// What placement needs to know of every layer. A step is a sampled round, in the order of the
// window, so the newest rounds judge a search. Rounds of another model (an expert or a layer that
// does not exist) are left out. Unavailable: a layer has fewer than kFewestRounds; the message says
// which and how many. Pure.
Result<std::vector<LayerActivations>> ActivationsOf(const RoutingWindow& window, int layers,
                                                    int experts);

}  // namespace janus::controllers
