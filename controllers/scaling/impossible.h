#pragma once

#include <optional>
#include <string>

#include "controllers/scaling/cheapest.h"

namespace janus::controllers {

// Targets that no allowed counts keep, not even where a single sequence of the demand's lengths is
// all there is to do.
struct Impossible {
  Counts nearest;    // the allowed counts that come nearest to the targets
  std::string text;  // what these give, what is wanted, what to do
};

// Looked for from the fewest expert instances to the most in doubling strides, each with the fewest
// and the most attention instances that are allowed. nullopt: a single sequence is kept, so it is
// the load that is too much; or no counts are allowed at all.
std::optional<Impossible> WhyImpossible(const Wanted& wanted, const CountBounds& bounds);

}  // namespace janus::controllers
