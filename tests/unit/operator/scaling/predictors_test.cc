#include "operator/scaling/predictors.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

PredictorInputs InputsWith(double kv_tokens) {
  PredictorInputs out;
  out.model = *controllers::FindModel("deepseek-v2");
  out.attention = out.experts = *FindHardware("H100");
  out.options.max_attention = 2;
  out.options.max_experts = 2;
  out.options.room = controllers::InstanceRoom{kv_tokens, 0, 160, 1};
  return out;
}

// Copies share their tables, and with them the setting.
bool IsSame(const controllers::Predictor& a, const controllers::Predictor& b) {
  return &a.setting() == &b.setting();
}

TEST(Predictors, BuildsOnceForEqualInputs) {
  Predictors predictors;
  const auto first = predictors.Get(InputsWith(1000));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_TRUE(IsSame(*first, *predictors.Get(InputsWith(1000))));
  EXPECT_EQ(predictors.size(), 1u);
}

TEST(Predictors, EveryInputCounts) {
  Predictors predictors;
  const auto first = predictors.Get(InputsWith(1000));
  const auto is_other = [&](const auto& change) {
    PredictorInputs inputs = InputsWith(1000);
    change(inputs);
    const auto other = predictors.Get(inputs);
    return other.ok() && !IsSame(*first, *other);
  };
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.options.room->kv_tokens = 1001; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.options.room->most_slots = 100; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.options.max_experts = 3; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.options.max_micro_batches = 1; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.options.rows_for_one = 2; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.model.vocab = 32000; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.attention = *FindHardware("H200"); }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.experts.price = 2; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.shares_node = true; }));
  EXPECT_TRUE(is_other([](PredictorInputs& in) { in.spare_slots = 1; }));
}

TEST(Predictors, KeepsTheLastOnesAskedFor) {
  Predictors predictors;
  const auto first = predictors.Get(InputsWith(1));
  const auto second = predictors.Get(InputsWith(2));
  for (int i = 3; i <= static_cast<int>(Predictors::kMost); ++i) {
    ASSERT_TRUE(predictors.Get(InputsWith(i)).ok());
  }
  EXPECT_TRUE(IsSame(*first, *predictors.Get(InputsWith(1))));
  ASSERT_TRUE(predictors.Get(InputsWith(99)).ok());
  EXPECT_EQ(predictors.size(), Predictors::kMost);
  EXPECT_TRUE(IsSame(*first, *predictors.Get(InputsWith(1)))) << "it was asked for lately";
  EXPECT_FALSE(IsSame(*second, *predictors.Get(InputsWith(2))));
}

TEST(Predictors, WhatCannotBeBuiltIsNotKept) {
  Predictors predictors;
  PredictorInputs inputs = InputsWith(1);
  inputs.options.room->fewest_experts = 3;
  EXPECT_EQ(predictors.Get(inputs).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(predictors.size(), 0u);
}

TEST(Predictors, ACopyIsItsOwn) {
  Predictors predictors;
  const auto first = predictors.Get(InputsWith(1));
  Predictors copy = predictors;
  ASSERT_TRUE(copy.Get(InputsWith(2)).ok());
  EXPECT_EQ(predictors.size(), 1u);
  EXPECT_TRUE(IsSame(*first, *copy.Get(InputsWith(1))));
}

}  // namespace
}  // namespace janus::control
