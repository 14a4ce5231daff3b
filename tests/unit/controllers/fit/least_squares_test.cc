#include "controllers/fit/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace janus::controllers {
namespace {

// y = a + b x with wide-ranging scales.
struct Line {
  std::vector<double> x;
  std::vector<double> y;

  void Predict(std::span<const double> v, std::span<double> out) const {
    for (size_t i = 0; i < x.size(); ++i) out[i] = v[0] + v[1] * x[i];
  }
};

Line PlantedLine(double noise, int outliers) {
  Line line;
  std::mt19937_64 random(7);
  for (int i = 0; i < 60; ++i) {
    line.x.push_back(i * 1e6);
    const double error = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    line.y.push_back((20e-6 + 3e-12 * line.x.back()) * (1 + noise * error));
  }
  for (int i = 0; i < outliers; ++i) line.y[static_cast<size_t>(7 * i + 3)] *= 4;
  return line;
}

constexpr FitParameter kParameters[] = {{"fixed", 1e-6, 0, 1}, {"slope", 1e-13, 0, 1}};

Result<FitResult> Fit(const Line& line, std::span<const FitParameter> parameters = kParameters) {
  return FitLogarithms(parameters, line.y,
                       [&](auto values, auto out) { line.Predict(values, out); });
}

TEST(FitLogarithms, FindsWhatWasPlanted) {
  const Result<FitResult> fit = Fit(PlantedLine(0, 0));
  ASSERT_TRUE(fit.ok()) << fit.status().ToString();
  EXPECT_NEAR(fit->values[0], 20e-6, 1e-10);
  EXPECT_NEAR(fit->values[1], 3e-12, 1e-17);
}

TEST(FitLogarithms, AFewWildMeasurementsDoNotBendIt) {
  const Result<FitResult> fit = Fit(PlantedLine(0.04, 6));
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->values[0] / 20e-6, 1, 0.06);
  EXPECT_NEAR(fit->values[1] / 3e-12, 1, 0.06);
}

TEST(FitLogarithms, StaysWithinItsBounds) {
  const FitParameter parameters[] = {{"fixed", 1e-6, 0, 10e-6}, {"slope", 1e-13, 0, 1}};
  const Result<FitResult> fit = Fit(PlantedLine(0, 0), parameters);
  ASSERT_TRUE(fit.ok());
  EXPECT_EQ(fit->values[0], 10e-6) << "the best lies beyond";
  EXPECT_GT(fit->values[1], 3e-12) << "the other one makes up for it";
}

TEST(FitLogarithms, SameInputsGiveTheSameBits) {
  const Line line = PlantedLine(0.1, 3);
  EXPECT_EQ(Fit(line)->values, Fit(line)->values);
}

TEST(FitLogarithms, RefusesWhatCannotBeFitted) {
  Line line = PlantedLine(0, 0);
  line.y[4] = std::nan("");
  EXPECT_EQ(Fit(line).status().message(), "fit: measurement 4 is nan; want a positive number");
  line.y[4] = 0;
  EXPECT_FALSE(Fit(line).ok());
  Line one;
  one.x = {1};
  one.y = {1};
  EXPECT_EQ(Fit(one).status().message(),
            "fit: 1 measurements for 2 coefficients; want at least as many");
  const FitParameter backwards[] = {{"fixed", 0, 1, 0}, {"slope", 1e-13, 0, 1}};
  EXPECT_FALSE(Fit(PlantedLine(0, 0), backwards).ok());
}

TEST(SummarizeErrors, GivesMedianTailAndBias) {
  std::vector<double> measured(10, 1.0);
  std::vector<double> predicted = {1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 0.9, 1.1, 1.1, 3.0};
  const ErrorSummary errors = SummarizeErrors(predicted, measured);
  EXPECT_EQ(errors.count, 10);
  EXPECT_NEAR(errors.median, 0.1, 1e-12);
  EXPECT_NEAR(errors.p90, 0.1, 1e-12);
  EXPECT_NEAR(errors.bias, 0.1, 1e-12);
  EXPECT_EQ(SummarizeErrors({}, {}).count, 0);
}

}  // namespace
}  // namespace janus::controllers
