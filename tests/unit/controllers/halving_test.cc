#include "controllers/halving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/random.h"

namespace janus::controllers {
namespace {

TEST(Narrow, BracketsWhereTheExcessCeases) {
  std::mt19937 random(TestSeed());
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 1000; ++i) {
    const double root = uniform(random);
    // Straight, convex, concave, and nearly flat at one end.
    const double power = std::exp2(6 * uniform(random) - 3);
    const double scale = std::exp2(20 * uniform(random) - 10);
    const auto excess = [&](double x) {
      return scale * (std::pow(root, power) - std::pow(x, power));
    };
    if (excess(0) <= 0) continue;
    int asked = 0;
    const Bracket bracket = Narrow({0, 1}, 1e-5, [&](double x) {
      ++asked;
      return excess(x);
    });
    EXPECT_LE(bracket.high - bracket.low, 1e-5);
    EXPECT_GT(excess(bracket.low), 0);
    EXPECT_LE(excess(bracket.high), 0);
    EXPECT_LT(asked, 40) << "root " << root << " power " << power;
  }
}

TEST(Narrow, TakesAFewStepsWhereItIsStraight) {
  int asked = 0;
  const Bracket bracket = Narrow({0, 1}, 1.0 / (1 << 16), [&](double x) {
    ++asked;
    return 0.3 - x;
  });
  EXPECT_LE(bracket.low, 0.3);
  EXPECT_GE(bracket.high, 0.3);
  EXPECT_LT(asked, 10) << "sixteen halvings";
}

TEST(Narrow, EndsWhereNoNumberIsBetween) {
  const double next = std::nextafter(1.0, 2);
  const Bracket bracket = Narrow({1, next}, 0, [](double x) { return x > 1 ? -1.0 : 1.0; });
  EXPECT_EQ(bracket.low, 1);
  EXPECT_EQ(bracket.high, next);
}

}  // namespace
}  // namespace janus::controllers
