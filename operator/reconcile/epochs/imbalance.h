#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/statistics.h"
#include "common/topology.h"

namespace janus::control {

// Computes instance loads from a placement and the popularity of experts.

// Expected load of each expert instance, [layers, n]: the rows that chose an expert, divided
// equally among its replicas. Additive in the popularity, so a difference of two results is the
// load in between. Nothing: popularity and placement are of different models. Pure.
std::optional<std::vector<double>> ExpectedLoads(const Placement& placement,
                                                 std::span<const LayerPopularity> popularity);

// How long expert instances wait for the busiest one: the sum over layers of the largest load,
// divided by the sum of the means, in thousandths; 1000 is even. A layer ends with its last answer,
// so layers do not compensate for each other. Nothing: no load. Pure.
std::optional<int64_t> ImbalancePermille(std::span<const double> loads, size_t instances);

// The increase from `before` to `now`, by value. Nothing: a value decreased, because a counting
// member is gone. Pure.
std::optional<std::vector<double>> Since(std::span<const double> before,
                                         std::span<const double> now);

}  // namespace janus::control
