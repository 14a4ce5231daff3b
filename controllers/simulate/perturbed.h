#pragma once

#include "controllers/plan/setting.h"

namespace janus::controllers {

// The true times of terms, over what a policy assumes.
struct TermFactors {
  double attention = 1;
  double experts = 1;
  double exchange = 1;

  friend bool operator==(const TermFactors&, const TermFactors&) = default;
};

// The setting with coefficients that scale every term of a step by its factor. The time to post a
// message is not a coefficient and stays (plan/terms.cc, 1 us).
Setting Perturbed(Setting setting, const TermFactors& factors);

}  // namespace janus::controllers
