#pragma once

#include "controllers/fit/online.h"
#include "controllers/plan/whole.h"
#include "controllers/scaling/curve.h"

namespace janus::controllers {

// WholeStepSeconds of one configuration in curves, within 1 % (a test checks this). Immutable, and
// so thread-safe.
class WholeTable {
 public:
  WholeTable(const Setting& setting, const WholeConfiguration& how);

  // `load` is over all stages.
  StepTimes Step(const StepLoad& load, const Corrections& corrections) const;
  const WholeConfiguration& how() const { return how_; }

 private:
  double Attention(double decode, double keys, double prompt, double prompt_keys) const;

  WholeConfiguration how_;
  double groups_ = 1;  // of attention, all stages
  double layers_ = 0;
  double dense_layers_ = 0;
  double stretch_ = 1;  // the slowest stage has more layers than the mean
  double busiest_ = 0;  // BusiestKeysFactor less 1, for one row per group
  double prompt_key_seconds_ = 0;
  Curve projections_;   // over the rows of a group
  Curve keys_per_row_;  // over the mean keys: seconds per decode row
  Curve keys_fixed_;    // over the mean keys: seconds per call
  Curve shared_;
  Curve dense_;
  Curve head_;
  Curve experts_;   // over the rows of a stage
  Curve exchange_;  // over the rows of a GPU
  Curve hops_;      // between stages, over the rows of a group
};

}  // namespace janus::controllers
