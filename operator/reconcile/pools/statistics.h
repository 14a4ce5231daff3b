#pragma once

#include <memory>
#include <span>

#include "common/statistics.h"

namespace janus::control {

// The statistics of several pools as those of one epoch, for decisions on counts: instances get
// consecutive ranks, and an epoch that differs from both pools' last one whenever one of these
// does. Each gateway reports to all pools and counts once. An instance that its own pool's epoch
// does not contain stays outside. Routing and traces are left out. Pure.
Statistics JoinPools(std::span<const std::shared_ptr<const Statistics>> pools);

}  // namespace janus::control
