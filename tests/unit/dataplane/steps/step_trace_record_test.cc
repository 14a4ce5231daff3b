#include "dataplane/steps/step_trace_record.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

constexpr int kLayers = 3;

StepTraceRecord::Epoch AnEpoch() {
  return {Role::kExperts, Rank{2}, 7, kLayers, /*most_of_layer=*/2, /*most_of_step=*/6};
}

MonotonicTime At(int64_t ns) {
  return MonotonicTime(std::chrono::nanoseconds(ns));
}

// A step of two timings in each layer.
void RunStep(StepTraceRecord& record, uint64_t step, bool ends = true) {
  record.BeginStep(step, At(static_cast<int64_t>(step) * 1000));
  for (int layer = 0; layer < kLayers; ++layer) {
    record.Enters(layer, layer % 2);
    record.EndTiming();
    record.EndTiming();
  }
  for (int layer = 0; layer < kLayers; ++layer) {
    record.Took(StepWork::kReceive, Seconds(1e-6));
    record.Took(StepWork::kExperts, Seconds(2e-6));
  }
  if (ends) record.EndStep();
}

TEST(StepTraceRecord, KeepsTheTwoNewestOfEverySixteenth) {
  StepTraceRecord record;
  EXPECT_TRUE(record.Read(100).empty());
  record.Enter(AnEpoch());
  for (uint64_t step = 1; step <= 60; ++step) RunStep(record, step);
  const std::vector<StepTrace> kept = record.Read(1000);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].step + kept[1].step, 32U + 48U);
  const StepTrace& last = kept[0].step == 48 ? kept[0] : kept[1];
  EXPECT_EQ(last.role, Role::kExperts);
  EXPECT_EQ(last.rank, Rank{2});
  EXPECT_EQ(last.epoch, 7U);
  EXPECT_EQ(last.layers, kLayers);
  EXPECT_EQ(last.began_ns, 48'000);
  EXPECT_EQ(last.spans, (std::vector<StepSpan>{{StepWork::kReceive, 0, 0, 1000},
                                               {StepWork::kExperts, 0, 0, 2000},
                                               {StepWork::kReceive, 1, 1, 1000},
                                               {StepWork::kExperts, 1, 1, 2000},
                                               {StepWork::kReceive, 2, 0, 1000},
                                               {StepWork::kExperts, 2, 0, 2000}}));
}

TEST(StepTraceRecord, AStepThatIsGivenUpLeavesNothing) {
  StepTraceRecord record;
  record.Enter(AnEpoch());
  RunStep(record, 16, /*ends=*/false);
  RunStep(record, 17);
  EXPECT_TRUE(record.Read(1000).empty());
}

TEST(StepTraceRecord, GivesWholeLayersFromTheMiddle) {
  StepTraceRecord record;
  record.Enter(AnEpoch());
  RunStep(record, 16);
  EXPECT_TRUE(record.Read(0).empty());
  for (const size_t room : {size_t{1}, size_t{7}}) {
    const std::vector<StepTrace> one = record.Read(room);
    ASSERT_EQ(one.size(), 1U);
    ASSERT_EQ(one[0].spans.size(), 2U) << "one layer at least";
    EXPECT_EQ(one[0].spans[0].layer, 1);
    EXPECT_EQ(one[0].began_ns, 16'000 + 3'000);
  }
}

TEST(StepTraceRecord, AnotherEpochBeginsAnewAndMoreTimingsThanThereIsRoomAreLeftOut) {
  StepTraceRecord record;
  record.Enter(AnEpoch());
  RunStep(record, 16);
  StepTraceRecord::Epoch next = AnEpoch();
  next.number = 8;
  next.most_of_step = 3;
  record.Enter(next);
  EXPECT_TRUE(record.Read(1000).empty());
  RunStep(record, 16);
  const std::vector<StepTrace> kept = record.Read(1000);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].epoch, 8U);
  EXPECT_EQ(kept[0].spans.size(), 3U);
}

}  // namespace
}  // namespace janus::dataplane
