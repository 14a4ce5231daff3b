#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/statistics.h"
#include "common/topology.h"

namespace janus::control {

// What a placement makes of the popularity of experts.

// Expected load of each expert instance, [layers, n]: the rows that chose an expert, shared alike
// by its replicas. Additive in the popularity, so that the difference of two is what came between.
// Nothing: the popularity is of another model than the placement. Pure.
std::optional<std::vector<double>> ExpectedLoads(const Placement& placement,
                                                 std::span<const LayerPopularity> popularity);

// By how much the expert instances wait for the busiest one: over all layers, the sum of the
// largest load of each by the sum of the means, in thousandths; 1000 is even. A round ends when the
// last instance has answered, so layers do not make up for each other. Nothing: there is no load.
// Pure.
std::optional<int64_t> ImbalancePermille(std::span<const double> loads, size_t instances);

// More now than before, by value. Nothing: a value has gone down, as a counting member has gone.
// Pure.
std::optional<std::vector<double>> Since(std::span<const double> before,
                                         std::span<const double> now);

}  // namespace janus::control
