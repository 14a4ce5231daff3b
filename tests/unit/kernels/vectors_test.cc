#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/table.h"
#include "tests/unit/kernels/row_problem.h"

namespace janus::kernels {
namespace {

// Distance in units of the last place of `wanted`.
double Ulps(float got, double wanted) {
  const float nearest = static_cast<float>(wanted);
  const double ulp = std::nextafter(std::abs(nearest), INFINITY) - std::abs(nearest);
  return std::abs(got - wanted) / ulp;
}

TEST(Exp, IsWithinElevenTenthsOfAnUlpOverItsWholeRange) {
  std::vector<float> x;
  for (float v = -87.3f; v < 88.72f; v += 0.00091f) x.push_back(v);
  for (float v = 1e-30f; v < 1.0f; v *= 1.37f) {
    x.push_back(v);
    x.push_back(-v);
  }
  for (const Isa isa : PresentIsas()) {
    std::vector<float> y(x.size());
    TableOf(isa).exp(x.data(), 0.0f, 1.0f, y.data(), static_cast<int64_t>(x.size()));
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, Ulps(y[i], std::exp(static_cast<double>(x[i]))));
    }
    EXPECT_LE(worst, 1.1) << ToString(isa);
  }
}

TEST(Exp, HandlesTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[6] = {-infinity, -200.0f, infinity, 89.0f, NAN, 0.0f};
  for (const Isa isa : PresentIsas()) {
    const ScopedFloatMode mode;
    float y[6] = {};
    TableOf(isa).exp(x, 0.0f, 1.0f, y, 6);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 0.0f);
    EXPECT_EQ(y[2], infinity);
    EXPECT_EQ(y[3], infinity);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[5], 1.0f);
  }
}

TEST(CosSin, AreWithinTwoRoundingsOfOneUpToTwoToThe22) {
  std::vector<float> x;
  for (float v = 0.0f; v < 100.0f; v += 0.0013f) x.push_back(v);
  for (float v = 100.0f; v < 4194304.0f; v *= 1.0003f) x.push_back(v);
  for (int n = 1; n < 100000; n += 7) x.push_back(static_cast<float>(n * M_PI_2));
  for (const Isa isa : PresentIsas()) {
    std::vector<float> cos(x.size());
    std::vector<float> sin(x.size());
    TableOf(isa).cos_sin(x.data(), cos.data(), sin.data(), static_cast<int64_t>(x.size()));
    double worst = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, std::abs(cos[i] - std::cos(static_cast<double>(x[i]))));
      worst = std::max(worst, std::abs(sin[i] - std::sin(static_cast<double>(x[i]))));
    }
    EXPECT_LE(worst, 1.2e-7) << ToString(isa);
  }
}

TEST(Largest, FindsTheLargestAndAnyNan) {
  for (const Isa isa : PresentIsas()) {
    for (const int count : {1, 15, 16, 17, 100}) {
      for (int at = 0; at < count; ++at) {
        std::vector<float> x(static_cast<size_t>(count), -5.0f);
        x[static_cast<size_t>(at)] = -1.0f;
        EXPECT_EQ(TableOf(isa).largest(x.data(), count), -1.0f);
        x[static_cast<size_t>(at)] = NAN;
        EXPECT_TRUE(std::isnan(TableOf(isa).largest(x.data(), count)));
      }
    }
  }
}

}  // namespace
}  // namespace janus::kernels
