#include "controllers/fit/power_law.h"

#include <gtest/gtest.h>

#include <cmath>

namespace janus::controllers {
namespace {

double Experts(const std::vector<std::pair<double, double>>& rows) {
  double sum = 0;
  for (const auto& [r, count] : rows) sum += count;
  return sum;
}

double Rows(const std::vector<std::pair<double, double>>& rows) {
  double sum = 0;
  for (const auto& [r, count] : rows) sum += r * count;
  return sum;
}

TEST(BalancedRows, GiveEveryExpertTheSame) {
  const std::vector<std::pair<double, double>> even = {{16, 32}};
  EXPECT_EQ(BalancedRows(512, 256, 8, 8), even);
  const std::vector<std::pair<double, double>> few = {{1, 8}, {0, 24}};
  EXPECT_EQ(BalancedRows(8, 256, 8, 8), few);
}

TEST(RowsOfBusiestInstance, AreThoseOfAllItsExpertsAndMoreThanItsShare) {
  const auto rows = RowsOfBusiestInstance({1024, 256, 8, 16, 1.2}, 40, 3);
  EXPECT_NEAR(Experts(rows), 16, 1e-9);
  EXPECT_GT(Rows(rows), 1024 * 8 / 16.0);
  EXPECT_LT(Rows(rows), 1024 * 8);
}

TEST(RowsOfBusiestInstance, OneInstanceHasAllRows) {
  EXPECT_NEAR(Rows(RowsOfBusiestInstance({100, 64, 4, 1, 0.8}, 10, 3)), 400, 1e-9);
}

TEST(RowsOfBusiestInstance, SteeperLawsAreMoreSkewed) {
  EXPECT_GT(Rows(RowsOfBusiestInstance({4096, 256, 8, 64, 1.2}, 60, 3)),
            Rows(RowsOfBusiestInstance({4096, 256, 8, 64, 0.6}, 60, 3)));
}

TEST(RowsOfBusiestInstance, TheSameSeedGivesTheSame) {
  const PowerLawRouting routing = {256, 256, 8, 8, 1.01};
  EXPECT_EQ(RowsOfBusiestInstance(routing, 20, 5), RowsOfBusiestInstance(routing, 20, 5));
  EXPECT_NE(RowsOfBusiestInstance(routing, 20, 5), RowsOfBusiestInstance(routing, 20, 6));
}

}  // namespace
}  // namespace janus::controllers
