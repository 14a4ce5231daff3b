#pragma once

#include <array>
#include <optional>
#include <vector>

#include "common/statistics.h"
#include "controllers/fit/least_squares.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// Online re-estimation: coefficients stay as calibrated, and each term of a step gets one factor
// learned from what workers measure. Why factors: a wrong clock, a slower memory or a kernel that
// reaches less of it scales a whole term, and a factor cannot bend the form that decides between
// m and n. The state is a value; nothing here keeps any. Pure.

struct Corrections {
  double attention = 1;  // of StepTimes::attention, before it enters the composition
  double experts = 1;
  double exchange = 1;
  double step = 1;  // of the composed step: what no term sees (host time, waiting for stragglers)

  friend bool operator==(const Corrections&, const Corrections&) = default;
};

// What was measured over some steps that ended at time_seconds: means per step.
struct StepSample {
  double time_seconds = 0;
  StepLoad load;
  StepTimes seconds;    // a term that was not measured is 0 and left alone
  double steps = 0;     // behind the means; few count less, 0: nothing was measured
  bool is_warm = true;  // false: an instance in it was still warming up; ignored

  friend bool operator==(const StepSample&, const StepSample&) = default;
};

struct OnlineOptions {
  // A factor says that the calibration is off, not that the cluster is another one: the largest
  // held-out error of a calibrated term is 44 % (controllers/README.md), a throttled device runs at
  // half its clock. Beyond 2x something is broken, and scaling is not the cure.
  double lowest = 0.5;
  double highest = 2;
  double half_life_seconds = 600;  // after which a sample weighs half
  int samples = 32;                // kept per term
  double prior_samples = 2;        // weight of "the calibration is right"
  double fewest_steps = 10;        // a sample of fewer is not taken
  // From which |log| distance to the centre a sample pulls linearly only (Huber).
  double robust_above = 0.05;

  friend bool operator==(const OnlineOptions&, const OnlineOptions&) = default;
};

struct OnlineState {
  struct Ratio {
    double time_seconds = 0;
    double log_ratio = 0;  // log(measured / predicted without correction)
    friend bool operator==(const Ratio&, const Ratio&) = default;
  };
  struct Judged {  // |predicted / measured - 1| of whole steps, before the sample was learned from
    double corrected = 0;
    double uncorrected = 0;
    friend bool operator==(const Judged&, const Judged&) = default;
  };
  std::array<std::vector<Ratio>, 4> ratios;  // attention, experts, exchange, step; oldest first
  std::vector<Judged> judged;                // oldest first
  Corrections corrections;
  double last_time_seconds = -1;

  friend bool operator==(const OnlineState&, const OnlineState&) = default;
};

// The state after one more sample. `predicted` is what the model says of sample.load with all
// factors 1; `composed` what it says of the step with the state's corrections of the three terms
// applied and the step's factor left out. A sample that is cold, too small, not finite, not
// positive or not newer than the last changes nothing.
OnlineState Learn(OnlineState state, const StepSample& sample, const StepTimes& predicted,
                  double composed_step, const OnlineOptions& options);

// How far the model was off on samples it had not learned from yet.
struct OnlineError {
  int count = 0;
  double corrected_median = 0;
  double corrected_p90 = 0;
  double uncorrected_median = 0;
  double uncorrected_p90 = 0;
};
OnlineError ErrorOf(const OnlineState& state);

// The sample between two looks at the workers' counters: medians over instances, so that one odd
// instance does not show; an instance that restarted in between or has run fewer than
// `warm_up_steps` is left out. `prompt_keys` is not in the counters. The exchange is what an
// attention instance waits beyond the experts' time, which only tells with one micro-batch.
// nullopt: another epoch, no step in between, or no instance left of a role.
std::optional<StepSample> SampleBetween(const Statistics& before, const Statistics& after,
                                        double time_seconds, uint64_t warm_up_steps,
                                        int micro_batches, double prompt_keys);

}  // namespace janus::controllers
