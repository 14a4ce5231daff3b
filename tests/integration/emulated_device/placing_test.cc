// Weights in device memory: each tensor once, shared with what was placed before.

#include <gtest/gtest.h>

#include <optional>

#include "dataplane/weights/place_weights.h"
#include "tests/support/emulated_device.h"
#include "tests/support/held_model.h"
#include "tests/support/place_attention.h"

namespace janus::dataplane {
namespace {

class PlacingTest : public testing::Test {
 protected:
  const HeldModel held_ = SmallLatentModel(DType::kBFloat16, 1);
  kernels::EmulatedDevice device_;
  const std::unique_ptr<kernels::Uploader> uploader_ = *kernels::Uploader::Make(device_);
};

TEST_F(PlacingTest, ATensorThatTwoHaveIsCopiedOnce) {
  AttentionWeights tied = held_.attention;
  tied.lm_head = tied.embedding;
  const auto apart = *PlaceAttention(*uploader_, held_.model, held_.attention);
  const uint64_t bytes = device_.counts().bytes_loaded;
  const auto together = *PlaceAttention(*uploader_, held_.model, tied);
  EXPECT_EQ(together.weights.lm_head.data, together.weights.embedding.data);
  EXPECT_EQ(bytes - (device_.counts().bytes_loaded - bytes),
            static_cast<uint64_t>(held_.model.vocab * held_.model.hidden) * 2);
}

TEST_F(PlacingTest, WhatIsKnownIsSharedAndOutlivesIt) {
  std::optional first = *PlaceExperts(*uploader_, held_.model, held_.experts);
  const uint64_t bytes = device_.counts().bytes_loaded;
  ExpertWeights fewer = held_.experts;
  fewer.layers[0].slots[0].reset();
  std::optional second = *PlaceExperts(*uploader_, held_.model, fewer, &*first);
  EXPECT_EQ(device_.counts().bytes_loaded, bytes);
  EXPECT_EQ(second->weights.layers[1].slots[2]->up.data,
            first->weights.layers[1].slots[2]->up.data);
  EXPECT_FALSE(second->weights.layers[0].slots[0].has_value());
  const void* const dropped = first->weights.layers[0].slots[0]->up.data;
  const void* const kept = first->weights.layers[1].slots[2]->up.data;
  first.reset();
  std::byte host{};
  EXPECT_TRUE(device_.CopyOut(&host, kept, 1).ok());
  EXPECT_FALSE(device_.CopyOut(&host, dropped, 1).ok()) << "nobody has it any more";
  ASSERT_TRUE(device_.Wait().ok());
}

TEST_F(PlacingTest, EndsWhereItIsStoppedAndLeavesNothing) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      PlaceAttention(*uploader_, held_.model, held_.attention, stop.get_token()).status().code(),
      StatusCode::kCancelled);
  EXPECT_EQ(PlaceExperts(*uploader_, held_.model, held_.experts, nullptr, stop.get_token())
                .status()
                .code(),
            StatusCode::kCancelled);
  EXPECT_EQ(device_.counts().bytes_loaded, 0u);
}

TEST_F(PlacingTest, OnTheHostTensorsStayWhereTheyAre) {
  const auto uploader = *kernels::Uploader::Make(kernels::HostContext());
  const auto placed = *PlaceAttention(*uploader, held_.model, held_.attention);
  EXPECT_EQ(placed.weights.embedding.data, held_.attention.embedding.data);
  EXPECT_TRUE(placed.tensors.empty());
}

}  // namespace
}  // namespace janus::dataplane
