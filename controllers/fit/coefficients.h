#pragma once

#include <span>
#include <utility>
#include <vector>

#include "common/cost.h"
#include "controllers/fit/least_squares.h"

namespace janus::controllers {

// Fits the coefficients of common/cost.h to measurements of one device and one kernel. Every Fit*
// starts at the speed of a current accelerator and stays within bounds around it. InvalidArgument:
// see FitLogarithms. Pure.

// A round of one expert instance.
struct ExpertMeasurement {
  // Pairs of (rows, number of experts with that many rows); fractions are allowed. Resident experts
  // without rows count with rows = 0.
  std::vector<std::pair<double, double>> experts;
  double seconds = 0;
};
double Predict(const ExpertCost& cost, const ExpertShape& shape, const ExpertMeasurement& at);
Result<ExpertCost> FitExperts(const ExpertShape& shape,
                              std::span<const ExpertMeasurement> measured);

// One decode call of grouped-query attention, repeated (caches warm).
struct GroupedMeasurement {
  GroupedShape shape;
  double batch = 0;
  double context = 0;
  double seconds = 0;
};
double Predict(const GroupedAttentionCost& cost, const GroupedMeasurement& at);
Result<GroupedAttentionCost> FitGroupedAttention(std::span<const GroupedMeasurement> measured);

// One decode call of a latent-attention module.
struct LatentMeasurement {
  double heads = 0;
  double batch = 0;
  double context = 0;
  double seconds = 0;
};
double Predict(const LatentAttentionCost& cost, const LatentMeasurement& at);
Result<LatentAttentionCost> FitLatentAttention(std::span<const LatentMeasurement> measured);

// One direction of an exchange.
struct ExchangeMeasurement {
  ExchangeLoad load;
  double seconds = 0;
};
double Predict(const ExchangeCost& cost, const ExchangeMeasurement& at);
Result<ExchangeCost> FitExchange(std::span<const ExchangeMeasurement> measured);

// One collective.
struct CollectiveMeasurement {
  double gpus = 0;
  double bytes = 0;
  double seconds = 0;
};
double Predict(const CollectiveCost& cost, const CollectiveMeasurement& at);
Result<CollectiveCost> FitCollective(std::span<const CollectiveMeasurement> measured);

// Compares predictions with measurements of any kind above.
template <class Predictor, class Measurement>
ErrorSummary Judge(std::span<const Measurement> measured, const Predictor& predict) {
  std::vector<double> predicted;
  std::vector<double> seconds;
  for (const Measurement& m : measured) {
    predicted.push_back(predict(m));
    seconds.push_back(m.seconds);
  }
  return SummarizeErrors(predicted, seconds);
}

}  // namespace janus::controllers
