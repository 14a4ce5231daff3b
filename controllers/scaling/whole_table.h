#pragma once

#include "controllers/fit/online.h"
#include "controllers/plan/whole.h"
#include "controllers/scaling/curve.h"

namespace janus::controllers {

// WholeStepSeconds of one configuration behind curves, off by at most 1 % (a test holds it).
// Immutable, so thread-safe.
class WholeTable {
 public:
  WholeTable(const Setting& setting, const WholeConfiguration& how);

  // `load` is of all stages.
  StepTimes Step(const StepLoad& load, const Corrections& corrections) const;
  const WholeConfiguration& how() const { return how_; }

 private:
  double Attention(double decode, double keys, double prompt, double prompt_keys) const;

  WholeConfiguration how_;
  double groups_ = 1;  // of attention, all stages
  double layers_ = 0;
  double dense_layers_ = 0;
  double stretch_ = 1;  // the slowest stage has more layers than the mean
  double busiest_ = 0;  // BusiestKeysFactor less 1 where each group has one row
  double prompt_key_seconds_ = 0;
  Curve projections_;   // of the rows of a group
  Curve keys_per_row_;  // of the mean keys: seconds a decode row
  Curve keys_fixed_;    // of the mean keys: seconds a call
  Curve shared_;
  Curve dense_;
  Curve head_;
  Curve experts_;   // of the rows of a stage
  Curve exchange_;  // of the rows of a GPU
  Curve hops_;      // between stages, of the rows of a group
};

}  // namespace janus::controllers
