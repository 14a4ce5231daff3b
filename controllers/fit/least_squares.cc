#include "controllers/fit/least_squares.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace janus::controllers {
namespace {

// Solves a x = b in place (Cholesky), for a symmetric positive definite a [n,n]. False: a is not
// positive definite.
bool SolveSymmetric(std::vector<double>& a, std::vector<double>& b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i == j) {
        if (!(sum > 0)) return false;
        a[i * n + i] = std::sqrt(sum);
      } else {
        a[i * n + j] = sum / a[j * n + j];
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return true;
}

class Fitter {
 public:
  Fitter(std::span<const FitParameter> parameters, std::span<const double> measured,
         const std::function<void(std::span<const double>, std::span<double>)>& predict,
         const FitOptions& options)
      : parameters_(parameters), measured_(measured), predict_(predict), options_(options) {
    // Parameters differ by ten orders of magnitude: each gets a unit of its order.
    for (const FitParameter& p : parameters) {
      unit_.push_back(p.start != 0 ? std::abs(p.start) : std::max(std::abs(p.high) * 0.01, 1e-300));
      values_.push_back(std::clamp(p.start, p.low, p.high));
    }
    residual_.resize(measured.size());
    trial_residual_.resize(measured.size());
    jacobian_.resize(measured.size() * parameters.size());
  }

  FitResult Run() {
    double cost = Evaluate(values_, residual_);
    double damping = 1e-2;
    int iteration = 0;
    for (; iteration < options_.max_iterations; ++iteration) {
      Linearize();
      bool improved = false;
      for (int attempt = 0; attempt < 12 && !improved; ++attempt) {
        const std::vector<double> trial = Step(damping);
        const double trial_cost = trial.empty() ? cost : Evaluate(trial, trial_residual_);
        if (trial_cost < cost) {
          improved = true;
          const double gain = (cost - trial_cost) / cost;
          values_ = trial;
          std::swap(residual_, trial_residual_);
          cost = trial_cost;
          damping = std::max(damping * 0.3, 1e-10);
          if (gain < 1e-7) return {values_, cost, iteration + 1};
        } else {
          damping *= 4;
        }
      }
      if (!improved) break;
    }
    return {values_, cost, iteration};
  }

 private:
  // Fills the residuals; returns the mean soft-L1 loss.
  double Evaluate(const std::vector<double>& values, std::vector<double>& residual) {
    predict_(values, residual);
    double cost = 0;
    for (size_t i = 0; i < residual.size(); ++i) {
      residual[i] = std::log(residual[i] / measured_[i]);
      const double scaled = residual[i] / options_.robust_above;
      cost += 2 * (std::sqrt(1 + scaled * scaled) - 1);
    }
    return std::isfinite(cost) ? cost / static_cast<double>(residual.size()) : HUGE_VAL;
  }

  // Forward differences, in the direction away from the nearer bound.
  void Linearize() {
    std::vector<double> moved = values_;
    for (size_t j = 0; j < parameters_.size(); ++j) {
      const double size = std::max(std::abs(values_[j]), unit_[j] * 1e-3) * 1e-6;
      const double step = values_[j] + size <= parameters_[j].high ? size : -size;
      moved[j] = values_[j] + step;
      predict_(moved, trial_residual_);
      for (size_t i = 0; i < measured_.size(); ++i) {
        const double residual = std::log(trial_residual_[i] / measured_[i]);
        jacobian_[j * measured_.size() + i] = (residual - residual_[i]) / step * unit_[j];
      }
      moved[j] = values_[j];
    }
  }

  // The damped Gauss-Newton step, cut to the bounds. Parameters that are at a bound and would leave
  // it are fixed. Empty: no step.
  std::vector<double> Step(double damping) const {
    const size_t n = parameters_.size();
    const size_t rows = measured_.size();
    std::vector<bool> is_held(n, false);
    for (size_t round = 0; round <= n; ++round) {
      std::vector<size_t> free;
      for (size_t j = 0; j < n; ++j) {
        if (!is_held[j]) free.push_back(j);
      }
      if (free.empty()) return {};
      std::vector<double> normal(free.size() * free.size());
      std::vector<double> step(free.size());
      for (size_t i = 0; i < rows; ++i) {
        const double scaled = residual_[i] / options_.robust_above;
        const double weight = 1 / std::sqrt(1 + scaled * scaled);
        for (size_t a = 0; a < free.size(); ++a) {
          const double ja = jacobian_[free[a] * rows + i] * weight;
          step[a] -= ja * residual_[i];
          for (size_t b = 0; b <= a; ++b) {
            normal[a * free.size() + b] += ja * jacobian_[free[b] * rows + i];
          }
        }
      }
      for (size_t a = 0; a < free.size(); ++a) {
        const size_t diagonal = a * free.size() + a;
        normal[diagonal] += damping * normal[diagonal] + 1e-12;
      }
      if (!SolveSymmetric(normal, step)) return {};
      std::vector<double> trial = values_;
      bool held_more = false;
      for (size_t a = 0; a < free.size(); ++a) {
        const size_t j = free[a];
        const double wanted = values_[j] + step[a] * unit_[j];
        trial[j] = std::clamp(wanted, parameters_[j].low, parameters_[j].high);
        if (trial[j] == values_[j] && wanted != values_[j]) {
          is_held[j] = true;
          held_more = true;
        }
      }
      if (!held_more) return trial;
    }
    return {};
  }

  const std::span<const FitParameter> parameters_;
  const std::span<const double> measured_;
  const std::function<void(std::span<const double>, std::span<double>)>& predict_;
  const FitOptions options_;
  std::vector<double> unit_;      // [parameters]
  std::vector<double> values_;    // [parameters]
  std::vector<double> residual_;  // [measurements]
  std::vector<double> trial_residual_;
  std::vector<double> jacobian_;  // [parameters, measurements]
};

double QuantileOf(std::vector<double>& values, double share) {
  const auto at = std::lround(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

}  // namespace

Result<FitResult> FitLogarithms(
    std::span<const FitParameter> parameters, std::span<const double> measured,
    const std::function<void(std::span<const double> values, std::span<double> out)>& predict,
    const FitOptions& options) {
  if (measured.size() < parameters.size()) {
    return InvalidArgument("fit: " + std::to_string(measured.size()) + " measurements for " +
                           std::to_string(parameters.size()) +
                           " coefficients; want at least as many");
  }
  for (size_t i = 0; i < measured.size(); ++i) {
    if (std::isfinite(measured[i]) && measured[i] > 0) continue;
    return InvalidArgument("fit: measurement " + std::to_string(i) + " is " +
                           std::to_string(measured[i]) + "; want a positive number");
  }
  for (const FitParameter& p : parameters) {
    if (p.low <= p.high) continue;
    return InvalidArgument(std::string("fit: coefficient ") + p.name + " has no room between " +
                           std::to_string(p.low) + " and " + std::to_string(p.high));
  }
  return Fitter(parameters, measured, predict, options).Run();
}

ErrorSummary SummarizeErrors(std::span<const double> predicted, std::span<const double> measured) {
  JANUS_CHECK(predicted.size() == measured.size(), predicted.size(), measured.size());
  if (measured.empty()) return {};
  std::vector<double> signed_errors;
  std::vector<double> errors;
  for (size_t i = 0; i < measured.size(); ++i) {
    signed_errors.push_back(predicted[i] / measured[i] - 1);
    errors.push_back(std::abs(signed_errors.back()));
  }
  ErrorSummary summary;
  summary.count = static_cast<int>(measured.size());
  summary.median = QuantileOf(errors, 0.5);
  summary.p90 = QuantileOf(errors, 0.9);
  summary.bias = QuantileOf(signed_errors, 0.5);
  return summary;
}

}  // namespace janus::controllers
