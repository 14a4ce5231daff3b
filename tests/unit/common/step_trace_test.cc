#include "common/step_trace.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

constexpr auto kSend = StepWork::kSend;
constexpr auto kReceive = StepWork::kReceive;

// An attention instance of one layer: computes for 10, sends, waits.
StepTrace AttentionFrom(int64_t began, int64_t waits, int rank = 0) {
  return {Role::kAttention,
          Rank{rank},
          1,
          16,
          1,
          began,
          {{StepWork::kAttention, 0, 0, 10}, {kSend, 0, 0, 2}, {kReceive, 0, 0, waits}}};
}
StepTrace ExpertFrom(int64_t began, int64_t waits, int64_t computes) {
  return {Role::kExperts,
          Rank{0},
          1,
          16,
          1,
          began,
          {{kReceive, 0, 0, waits}, {StepWork::kExperts, 0, 0, computes}, {kSend, 0, 0, 2}}};
}

TEST(StepTrace, TheMiddleKeepsItsTimes) {
  StepTrace trace;
  trace.layers = 4;
  trace.began_ns = 100;
  trace.spans = {{StepWork::kKernels, -1, 0, 5}};
  for (int layer = 0; layer < 4; ++layer) {
    trace.spans.push_back({StepWork::kAttention, layer, 0, 10});
    trace.spans.push_back({kSend, layer, 0, 1});
  }
  trace.spans.push_back({StepWork::kHost, -1, 0, 7});
  StepTrace all = trace;
  KeepMiddle(all, 4);
  EXPECT_EQ(all, trace);
  KeepMiddle(trace, 2);
  EXPECT_EQ(trace.began_ns, 100 + 5 + 11);
  ASSERT_EQ(trace.spans.size(), 4U);
  EXPECT_EQ(trace.spans.front(), (StepSpan{StepWork::kAttention, 1, 0, 10}));
  EXPECT_EQ(trace.spans.back(), (StepSpan{kSend, 2, 0, 1}));
}

TEST(StepTrace, OneStepIsKeptThatMostMembersHave) {
  const auto of = [](Role role, int rank, uint64_t step) {
    StepTrace one;
    one.role = role;
    one.rank = Rank{rank};
    one.step = step;
    return one;
  };
  std::vector<StepTrace> traces = {of(Role::kAttention, 0, 32), of(Role::kAttention, 0, 48),
                                   of(Role::kExperts, 0, 16), of(Role::kExperts, 0, 32)};
  KeepOneStep(traces);
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].step, 32U);
  EXPECT_EQ(traces[1].step, 32U);
  // Of equal ones the newest.
  traces = {of(Role::kAttention, 0, 32), of(Role::kAttention, 0, 48)};
  KeepOneStep(traces);
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces[0].step, 48U);
  traces.clear();
  KeepOneStep(traces);
  EXPECT_TRUE(traces.empty());
}

TEST(StepTrace, OfOneMachineNothingMoves) {
  // Sent from 1010 on, there at 1013; answered from 1033 on, there at 1036.
  std::vector<StepTrace> traces = {ExpertFrom(1000, 13, 20), AttentionFrom(1000, 24)};
  EXPECT_EQ(AlignClocks(traces), 0);
  EXPECT_EQ(traces[0].role, Role::kAttention) << "attention comes first";
  EXPECT_EQ(traces[0].began_ns, 1000);
  EXPECT_EQ(traces[1].began_ns, 1000);
}

TEST(StepTrace, ClocksOfTwoMachinesMeetInTheMiddle) {
  constexpr int64_t kApart = 123'456'789;
  std::vector<StepTrace> traces = {AttentionFrom(1000, 24), ExpertFrom(1000 + kApart, 13, 20),
                                   AttentionFrom(1001 - kApart, 23, 1)};
  // Rows may have travelled for 0 to 6: from 1010 to the arrival, and the answer until 1036.
  const int64_t error = AlignClocks(traces);
  EXPECT_EQ(error, 3);
  EXPECT_EQ(traces[0].began_ns, 1000);
  ASSERT_EQ(traces[2].role, Role::kExperts);
  EXPECT_NEAR(static_cast<double>(traces[2].began_ns), 1000, 3);
  EXPECT_NEAR(static_cast<double>(traces[1].began_ns), 1001, 6);
}

TEST(StepTrace, AnInstanceWithoutACommonRoundStays) {
  StepTrace other = ExpertFrom(77, 13, 20);
  for (StepSpan& span : other.spans) span.layer = 5;
  other.began_ns = 1010;
  std::vector<StepTrace> traces = {AttentionFrom(1000, 24), other};
  EXPECT_EQ(AlignClocks(traces), 0);
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[1].began_ns, 1010);
  traces[1].began_ns = 77;
  EXPECT_EQ(AlignClocks(traces), 0);
  EXPECT_EQ(traces.size(), 1U) << "its clock is another one, and nothing tells how far it is off";
  std::vector<StepTrace> experts = {other};
  EXPECT_EQ(AlignClocks(experts), 0) << "without attention there is no first clock";
}

}  // namespace
}  // namespace janus
