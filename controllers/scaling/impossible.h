#pragma once

#include <optional>
#include <string>

#include "controllers/scaling/cheapest.h"

namespace janus::controllers {

// Targets that no allowed counts keep, even if a single sequence of the demand's lengths is the
// only load.
struct Impossible {
  Counts nearest;    // the allowed counts that come closest to the targets
  std::string text;  // what these give, what is wanted, what to do
};

// Checks expert instances from the fewest to the most in doubling strides, each with the fewest and
// the most allowed attention instances. nullopt: a single sequence keeps the targets, so the load
// is too large; or no counts are allowed.
std::optional<Impossible> WhyImpossible(const Wanted& wanted, const CountBounds& bounds);

}  // namespace janus::controllers
