#include "controllers/fit/coefficients.h"

namespace janus::controllers {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kNano = 1e-9;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// Fits a cost struct. `make` builds it from the values, in the order of the parameters.
template <class Measurement, class Make, class PredictOne>
auto Fit(std::span<const FitParameter> parameters, std::span<const Measurement> measured,
         const Make& make, const PredictOne& predict_one)
    -> Result<decltype(make(std::span<const double>()))> {
  std::vector<double> seconds;
  for (const Measurement& m : measured) seconds.push_back(m.seconds);
  JANUS_ASSIGN_OR_RETURN(const FitResult result,
                         FitLogarithms(parameters, seconds,
                                       [&](std::span<const double> values, std::span<double> out) {
                                         const auto cost = make(values);
                                         for (size_t i = 0; i < measured.size(); ++i)
                                           out[i] = predict_one(cost, measured[i]);
                                       }));
  return make(std::span<const double>(result.values));
}

}  // namespace

double Predict(const ExpertCost& cost, const ExpertShape& shape, const ExpertMeasurement& at) {
  double seconds = cost.fixed_seconds;
  for (const auto& [rows, count] : at.experts) {
    seconds += count * (rows > 0 ? OneExpertSeconds(cost, shape, rows) : cost.idle_expert_seconds);
  }
  return seconds;
}

Result<ExpertCost> FitExperts(const ExpertShape& shape,
                              std::span<const ExpertMeasurement> measured) {
  const FitParameter parameters[] = {
      {"fixed", 20 * kMicro, 0, 500 * kMicro},
      {"bytes per second", 3000 * kGiga, 1 * kGiga, 50000 * kGiga},
      {"operations per second", 1000 * kTera, 1 * kGiga, 50000 * kTera},
      {"idle expert", 0.7 * kMicro, 0, 20 * kMicro},
      {"sharpness", 2, 1, 12}};
  return Fit(
      std::span<const FitParameter>(parameters), measured,
      [](std::span<const double> v) {
        return ExpertCost{v[0], v[1], v[2], v[3], v[4]};
      },
      [&](const ExpertCost& cost, const ExpertMeasurement& m) { return Predict(cost, shape, m); });
}

double Predict(const GroupedAttentionCost& cost, const GroupedMeasurement& at) {
  return GroupedAttentionSeconds(cost, at.shape, at.batch, at.context, KvCacheState::kWarm);
}

Result<GroupedAttentionCost> FitGroupedAttention(std::span<const GroupedMeasurement> measured) {
  const FitParameter parameters[] = {
      {"fixed", 9 * kMicro, 0, 100 * kMicro},
      {"bytes per second", 3000 * kGiga, 1 * kGiga, 50000 * kGiga},
      {"cached bytes per second", 8000 * kGiga, 1 * kGiga, 100000 * kGiga},
      {"cache bytes", 40e6, 5e6, 200e6},
      {"kv head", 20 * kNano, 0, 500 * kNano},
      {"query head", 1 * kNano, 0, 200 * kNano},
      {"operation", 1e-15, 0, 1e-12},
      {"split", 0.8 * kMicro, 0, 20 * kMicro},
      {"sharpness", 1.6, 1, 8}};
  return Fit(
      std::span<const FitParameter>(parameters), measured,
      [](std::span<const double> v) {
        return GroupedAttentionCost{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]};
      },
      [](const GroupedAttentionCost& cost, const GroupedMeasurement& m) {
        return Predict(cost, m);
      });
}

double Predict(const LatentAttentionCost& cost, const LatentMeasurement& at) {
  return LatentAttentionSeconds(cost, at.heads, at.batch, at.context);
}

Result<LatentAttentionCost> FitLatentAttention(std::span<const LatentMeasurement> measured) {
  const FitParameter parameters[] = {
      {"fixed", 28 * kMicro, 0, 200 * kMicro}, {"head", 0.5 * kMicro, 0, 5 * kMicro},
      {"row", 80 * kNano, 0, 5 * kMicro},      {"row and head", 3.5 * kNano, 0, 1 * kMicro},
      {"key", 0.35 * kNano, 0, 50 * kNano},    {"key and head", 2e-12, 0, 1 * kNano},
      {"split", 1.7 * kMicro, 0, 20 * kMicro}, {"sharpness", 1.6, 1, 8}};
  return Fit(
      std::span<const FitParameter>(parameters), measured,
      [](std::span<const double> v) {
        return LatentAttentionCost{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
      },
      [](const LatentAttentionCost& cost, const LatentMeasurement& m) { return Predict(cost, m); });
}

double Predict(const ExchangeCost& cost, const ExchangeMeasurement& at) {
  return ExchangeSeconds(cost, at.load);
}

Result<ExchangeCost> FitExchange(std::span<const ExchangeMeasurement> measured) {
  const FitParameter parameters[] = {
      {"fixed", 10 * kMicro, 0, 100 * kMicro},
      {"network", 15 * kMicro, 0, 200 * kMicro},
      {"peer", 10 * kNano, 0, 1 * kMicro},
      {"inner bytes per second", 200 * kGiga, 1 * kGiga, 5000 * kGiga},
      {"network bytes per second", 45 * kGiga, 0.1 * kGiga, 1000 * kGiga},
      {"row", 20 * kNano, 0, 10 * kMicro},
      {"sharpness", 1.3, 1, 8}};
  return Fit(
      std::span<const FitParameter>(parameters), measured,
      [](std::span<const double> v) {
        return ExchangeCost{v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
      },
      [](const ExchangeCost& cost, const ExchangeMeasurement& m) { return Predict(cost, m); });
}

double Predict(const CollectiveCost& cost, const CollectiveMeasurement& at) {
  return CollectiveSeconds(cost, at.gpus, at.bytes);
}

Result<CollectiveCost> FitCollective(std::span<const CollectiveMeasurement> measured) {
  const FitParameter parameters[] = {
      {"latency fixed", 4 * kMicro, 0, 100 * kMicro},
      {"latency peer", 1 * kMicro, 0, 20 * kMicro},
      {"latency bytes per second", 80 * kGiga, 1 * kGiga, 2000 * kGiga},
      {"bandwidth fixed", 18 * kMicro, 0, 200 * kMicro},
      {"bandwidth peer", 0.5 * kMicro, 0, 20 * kMicro},
      {"bandwidth bytes per second", 300 * kGiga, 1 * kGiga, 5000 * kGiga}};
  return Fit(
      std::span<const FitParameter>(parameters), measured,
      [](std::span<const double> v) {
        return CollectiveCost{{v[0], v[1], v[2]}, {v[3], v[4], v[5]}};
      },
      [](const CollectiveCost& cost, const CollectiveMeasurement& m) { return Predict(cost, m); });
}

}  // namespace janus::controllers
