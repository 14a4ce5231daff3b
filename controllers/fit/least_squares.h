#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace janus::controllers {

// One coefficient to fit: its start and its bounds.
struct FitParameter {
  const char* name = "";
  double start = 0;
  double low = 0;
  double high = 0;
};

struct FitOptions {
  int max_iterations = 60;
  // Above this relative error a measurement counts linearly instead of squared (soft L1), so that a
  // few outliers do not distort the fit.
  double robust_above = 0.05;
};

struct FitResult {
  std::vector<double> values;  // within the bounds, in the order of the parameters
  double cost = 0;             // mean robust loss; compares fits from different starts
  int iterations = 0;
};

// Finds the parameters for which predict(values, out) is closest to `measured` in relative terms.
// It minimises the mean over i of the soft-L1 loss of log(out[i] / measured[i]) by
// Levenberg-Marquardt within the bounds. Deterministic: the same inputs give the same result.
//
// `predict` fills out[0..n). Its values must be positive and finite within the bounds.
// InvalidArgument: fewer measurements than parameters, a measurement that is not positive and
// finite, or invalid bounds; the message names each by number or name.
Result<FitResult> FitLogarithms(
    std::span<const FitParameter> parameters, std::span<const double> measured,
    const std::function<void(std::span<const double> values, std::span<double> out)>& predict,
    const FitOptions& options = {});

// Errors of predictions, relative to the measurements.
struct ErrorSummary {
  int count = 0;
  double median = 0;  // of |predicted / measured - 1|
  double p90 = 0;
  double bias = 0;  // median of predicted / measured - 1
};

// `predicted` and `measured` have the same size. Empty ones give zeros.
ErrorSummary SummarizeErrors(std::span<const double> predicted, std::span<const double> measured);

}  // namespace janus::controllers
