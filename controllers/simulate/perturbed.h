#pragma once

#include "controllers/plan/setting.h"

namespace janus::controllers {

// What a truth's terms take over what a policy believes.
struct TermFactors {
  double attention = 1;
  double experts = 1;
  double exchange = 1;

  friend bool operator==(const TermFactors&, const TermFactors&) = default;
};

// A setting whose coefficients make every term of a step longer by its factor. Posting a message
// (plan/terms.cc, 1 us, not a coefficient) stays.
Setting Perturbed(Setting setting, const TermFactors& factors);

}  // namespace janus::controllers
