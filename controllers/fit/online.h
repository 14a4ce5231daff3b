#pragma once

#include <array>
#include <optional>
#include <vector>

#include "common/statistics.h"
#include "controllers/fit/least_squares.h"
#include "controllers/plan/performance.h"

namespace janus::controllers {

// Re-estimates while the service runs. The calibrated coefficients stay; each term of a step gets
// one factor, learned from the workers' measurements. A factor fits what usually goes wrong: a
// wrong clock, a slower memory or a less efficient kernel scales a whole term. It also cannot
// change the form that decides between m and n. The state is a value; nothing is kept here. Pure.

struct Corrections {
  double attention = 1;  // of StepTimes::attention, before it enters the composition
  double experts = 1;
  double exchange = 1;
  double step = 1;  // of the composed step: what no term includes (host time, stragglers)

  friend bool operator==(const Corrections&, const Corrections&) = default;
};

// Measurements over the steps that ended by time_seconds: means per step.
struct StepSample {
  double time_seconds = 0;
  StepLoad load;
  StepTimes seconds;    // 0: this term was not measured and is not corrected
  double steps = 0;     // in the means; few steps weigh less; 0: nothing was measured
  bool is_warm = true;  // false: an instance was still warming up; the sample is ignored

  friend bool operator==(const StepSample&, const StepSample&) = default;
};

struct OnlineOptions {
  // Bounds of a factor. It corrects an error of the calibration: the largest held-out error of a
  // calibrated term is 44 % (controllers/README.md), and a throttled device runs at half its clock.
  // Beyond 2x something is broken, and scaling cannot repair it.
  double lowest = 0.5;
  double highest = 2;
  double half_life_seconds = 600;  // after this time a sample weighs half
  int samples = 32;                // kept per term
  double prior_samples = 2;        // weight of the assumption that the calibration is right
  double fewest_steps = 10;        // smaller samples are ignored
  // Beyond this |log| distance to the centre a sample pulls only linearly (Huber).
  double robust_above = 0.05;

  friend bool operator==(const OnlineOptions&, const OnlineOptions&) = default;
};

struct OnlineState {
  struct Ratio {
    double time_seconds = 0;
    double log_ratio = 0;  // log(measured / uncorrected prediction)
    friend bool operator==(const Ratio&, const Ratio&) = default;
  };
  struct Judged {  // |predicted / measured - 1| of whole steps, before learning
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

// The state after one more sample. `predicted` is the prediction for sample.load with all factors
// 1. `composed_step` is the prediction of the step with the corrections of the three terms, but
// without the factor of the step. A sample that is cold, too small, not finite, not positive or not
// newer than the last one changes nothing.
OnlineState Learn(OnlineState state, const StepSample& sample, const StepTimes& predicted,
                  double composed_step, const OnlineOptions& options);

// Errors of the model on samples from which it had not learned yet.
struct OnlineError {
  int count = 0;
  double corrected_median = 0;
  double corrected_p90 = 0;
  double uncorrected_median = 0;
  double uncorrected_p90 = 0;
};
OnlineError ErrorOf(const OnlineState& state);

// The sample between two readings of the workers' counters. It takes medians over instances, so
// that a single unusual instance does not matter. Instances that restarted in between or have run
// fewer than `warm_up_steps` are left out; they are assumed to have had as many rows as the others.
//
// The exchange is the time from sending a round's rows until its contributions are here, less what
// the experts compute. This is measurable only with one micro-batch; with more it stays 0.
//
// Workers of an older version do not count rows and keys by kind (InstanceStatistics::load). Then
// rows that drew a token are taken to decode, the context is that of the keys held now, and
// `prompt_keys` is the caller's.
//
// nullopt: the epoch changed, there was no step, or a role has no instance left.
std::optional<StepSample> SampleBetween(const Statistics& before, const Statistics& after,
                                        double time_seconds, uint64_t warm_up_steps,
                                        int micro_batches, double prompt_keys);

}  // namespace janus::controllers
