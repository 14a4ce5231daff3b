#include "controllers/fit/coefficients.h"

#include <gtest/gtest.h>

#include <vector>

namespace janus::controllers {
namespace {

TEST(FitExperts, FindsThePlantedDevice) {
  const ExpertShape shape = {7168, 2048, 1, 1};
  const ExpertCost planted = {25e-6, 3.5e12, 1.1e15, 0.6e-6, 2};
  std::vector<ExpertMeasurement> measured;
  for (const double resident : {1., 4., 16., 64.}) {
    for (const double activated : {0.25, 1.}) {
      for (const double rows : {1., 30., 300., 3000.}) {
        ExpertMeasurement m;
        m.experts = {{rows, resident * activated}, {0, resident * (1 - activated)}};
        m.seconds = Predict(planted, shape, m);
        measured.push_back(m);
      }
    }
  }
  const Result<ExpertCost> fitted = FitExperts(shape, measured);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_NEAR(fitted->fixed_seconds / planted.fixed_seconds, 1, 0.01);
  EXPECT_NEAR(fitted->bytes_per_second / planted.bytes_per_second, 1, 0.01);
  EXPECT_NEAR(fitted->operations_per_second / planted.operations_per_second, 1, 0.01);
  EXPECT_NEAR(fitted->idle_expert_seconds / planted.idle_expert_seconds, 1, 0.02);
}

TEST(FitGroupedAttention, FindsBandwidthAndPredictsAShapeItDidNotSee) {
  const GroupedAttentionCost planted = {9e-6, 3e12, 1.2e13, 4e7, 20e-9, 1e-9, 1e-15, 1e-6, 1.6};
  const auto at = [&](double heads, double kv_heads, double batch, double context) {
    GroupedMeasurement m = {{heads, kv_heads, 128, 2, 0}, batch, context, 0};
    m.seconds = Predict(planted, m);
    return m;
  };
  std::vector<GroupedMeasurement> measured;
  for (const double kv_heads : {1., 4., 16.}) {
    for (const double batch : {1., 16., 256.}) {
      for (const double context : {16., 512., 8192., 65536.}) {
        measured.push_back(at(kv_heads * 4, kv_heads, batch, context));
        measured.push_back(at(kv_heads * 8, kv_heads, batch, context));
      }
    }
  }
  const Result<GroupedAttentionCost> fitted = FitGroupedAttention(measured);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_NEAR(fitted->bytes_per_second / planted.bytes_per_second, 1, 0.02);
  const GroupedMeasurement unseen = at(48, 8, 64, 3000);
  EXPECT_NEAR(Predict(*fitted, unseen) / unseen.seconds, 1, 0.03);
}

TEST(FitCollective, TellsTheTwoProtocolsApart) {
  const CollectiveCost planted = {{5e-6, 0.7e-6, 9e10}, {22e-6, 0.3e-6, 2.8e11}};
  std::vector<CollectiveMeasurement> measured;
  for (const double gpus : {2., 4., 8.}) {
    for (double bytes = 256; bytes < 1e9; bytes *= 2) {
      measured.push_back({gpus, bytes, CollectiveSeconds(planted, gpus, bytes)});
    }
  }
  const Result<CollectiveCost> fitted = FitCollective(measured);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  const ErrorSummary errors =
      Judge(std::span<const CollectiveMeasurement>(measured),
            [&](const CollectiveMeasurement& m) { return Predict(*fitted, m); });
  EXPECT_LT(errors.p90, 0.03);
}

TEST(FitExchange, FindsLatencyAndBothBandwidths) {
  const ExchangeCost planted = {12e-6, 15e-6, 2e-9, 2.5e11, 4.8e10, 1e-9, 1.1};
  std::vector<ExchangeMeasurement> measured;
  for (const double nodes : {1., 2., 8.}) {
    for (double rows = 1; rows <= 2048; rows *= 2) {
      const ExchangeLoad load = {rows, rows * 8 * 7168, nodes * 32, nodes};
      measured.push_back({load, ExchangeSeconds(planted, load)});
    }
  }
  const Result<ExchangeCost> fitted = FitExchange(measured);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_NEAR(fitted->network_bytes_per_second / planted.network_bytes_per_second, 1, 0.05);
  EXPECT_NEAR(fitted->inner_bytes_per_second / planted.inner_bytes_per_second, 1, 0.1);
}

TEST(FitLatentAttention, PredictsHeadsItDidNotSee) {
  const LatentAttentionCost planted = {29e-6, 0.6e-6, 80e-9, 3.7e-9, 0.4e-9, 1.6e-12, 1.7e-6, 1.5};
  std::vector<LatentMeasurement> measured;
  for (const double heads : {8., 16., 64., 128.}) {
    for (const double batch : {1., 16., 128., 1024.}) {
      for (const double context : {1., 128., 1024., 16384.}) {
        measured.push_back(
            {heads, batch, context, LatentAttentionSeconds(planted, heads, batch, context)});
      }
    }
  }
  const Result<LatentAttentionCost> fitted = FitLatentAttention(measured);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_NEAR(
      LatentAttentionSeconds(*fitted, 32, 64, 2048) / LatentAttentionSeconds(planted, 32, 64, 2048),
      1, 0.03);
}

}  // namespace
}  // namespace janus::controllers
