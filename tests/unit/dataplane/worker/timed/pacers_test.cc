#include "dataplane/worker/timed/pacers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "controllers/plan/performance.h"

namespace janus::dataplane {
namespace {

using controllers::Configuration;
using controllers::StepLoad;
using controllers::TimedModel;

constexpr int kScale = 64;
constexpr int kContext = 500;
constexpr int kServedExperts = 8;

TimedModel Timed(int moe_layers, int scale = kScale) {
  return *TimedModel::Make({"H200", "deepseek-v3", scale, 1}, {moe_layers, kServedExperts, 2});
}

// Steps of one attention and one expert instance with all experts, in the order in which the
// instances call their pacers, on a clock that shows every result when it is due.
class OneByOne {
 public:
  OneByOne(const TimedModel& model, int layers, int micro_batches)
      : layers_(layers),
        micro_batches_(micro_batches),
        attention_(MakeAttentionPacer(model)),
        experts_(MakeExpertPacer(model, 1, 1)) {}

  // Of the rows of the served model; what the step took.
  Seconds Step(int rows) {
    const MonotonicTime start = now_;
    attention_->BeginStep(now_);
    const auto b = static_cast<size_t>(micro_batches_);
    std::vector<MonotonicTime> come(b);
    for (int layer = 0; layer < layers_; ++layer) {
      for (size_t i = 0; i < b; ++i) {
        const int part = rows / micro_batches_;
        const bool overlaps = b > 1, is_first = layer == 0 && i == 0;
        const MonotonicTime sent =
            attention_->Attend({.decode = part, .decode_keys = int64_t{kContext} * part}, come[i],
                               overlaps && is_first);
        come[i] = Answer(attention_->Show(sent, sent), part, overlaps && is_first,
                         overlaps && layer + 1 == layers_ && i + 1 == b);
        attention_->Share(part);
      }
    }
    const MonotonicTime last = *std::max_element(come.begin(), come.end());
    now_ = attention_->EndStep({.decode = rows, .decode_keys = int64_t{kContext} * rows}, last);
    attention_->Show(now_, now_);
    return now_ - start;
  }
  AttentionPacer& attention() { return *attention_; }

 private:
  MonotonicTime Answer(MonotonicTime sent, int rows, bool is_first, bool is_last) {
    experts_->Receive(rows, sent, is_first);
    std::array<int, kServedExperts> slots;
    slots.fill(rows * 2 / kServedExperts);
    const MonotonicTime due = experts_->Compute({0, slots, {}}, is_last);
    return experts_->Send(experts_->Show(due, due), is_last);
  }

  const int layers_;
  const int micro_batches_;
  const std::unique_ptr<AttentionPacer> attention_;
  const std::unique_ptr<ExpertPacer> experts_;
  MonotonicTime now_{std::chrono::hours(1)};
};

double PlannedStep(const TimedModel& model, int micro_batches, int rows) {
  Configuration how;
  how.slots = model.setting().model.experts;
  how.micro_batches = micro_batches;
  StepLoad load;
  load.decode_rows = rows * kScale;
  load.context = kContext;
  return TimesOfStep(model.setting(), how, load).step;
}

TEST(PacersTest, AStepTakesWhatAPlanSaysOfIt) {
  for (const int layers : {2, 4, 58}) {
    for (const int rows : {16, 64}) {
      const TimedModel model = Timed(layers);
      OneByOne run(model, layers, 1);
      const double want = PlannedStep(model, 1, rows);
      for (int step = 0; step < 3; ++step) {
        EXPECT_NEAR(run.Step(rows).count() / want, 1, 1e-3) << layers << " layers, " << rows;
      }
    }
  }
}

// The plan's formula leaves out that the first and last parts of a step overlap with nothing: of
// one layer of the named model, however many of these a served one stands for.
TEST(PacersTest, MicroBatchesOverlapAsAPlanSays) {
  for (const int micro_batches : {2, 3, 4}) {
    const TimedModel whole = Timed(58), few = Timed(4);
    const int rows = 48;
    const double want = PlannedStep(whole, micro_batches, rows);
    OneByOne run(whole, 58, micro_batches);
    EXPECT_NEAR(run.Step(rows).count() / want, 1, 0.03) << micro_batches;
    OneByOne coarse(few, 4, micro_batches);
    const double took = coarse.Step(rows).count();
    EXPECT_GT(took, want * 0.97) << micro_batches;
    EXPECT_LT(took, want * 1.05) << micro_batches;
  }
}

TEST(PacersTest, AStepThatFollowsAtOnceGoesOnWhereTheLastWasDue) {
  const TimedModel model = Timed(4);
  const auto pacer = MakeAttentionPacer(model);
  const MonotonicTime start{std::chrono::hours(1)};
  pacer->BeginStep(start);
  const PacedRows rows = {.decode = 4, .decode_keys = 2000};
  const MonotonicTime first = pacer->EndStep(rows, {});
  const auto took = first - start;
  // The thread woke up late, by less than what counts.
  EXPECT_EQ(pacer->Show(first, first + kLate), first);
  pacer->BeginStep(first + kPause);
  EXPECT_EQ(pacer->EndStep(rows, {}), first + took);
  // After a pause the next one begins when it begins.
  const MonotonicTime later = first + took + kPause + std::chrono::nanoseconds(1);
  pacer->BeginStep(later);
  EXPECT_EQ(pacer->EndStep(rows, {}), later + took);
  EXPECT_EQ(pacer->counts().overruns, 0u);
}

TEST(PacersTest, WhatIsShownTooLateOverrunsAndTheTimelineGoesOnFromThere) {
  const TimedModel model = Timed(4);
  const auto pacer = MakeAttentionPacer(model);
  const MonotonicTime start{std::chrono::hours(1)};
  pacer->BeginStep(start);
  const PacedRows rows = {.decode = 4, .decode_keys = 2000};
  const MonotonicTime due = pacer->Attend(rows, {}, false);
  const auto took = due - start;
  const MonotonicTime late = due + kLate + std::chrono::nanoseconds(1);
  EXPECT_EQ(pacer->Show(due, late), late);
  EXPECT_EQ(pacer->Attend(rows, {}, false), late + took);
  EXPECT_EQ(pacer->counts().waits, 1u);
  EXPECT_EQ(pacer->counts().overruns, 1u);

  const auto experts = MakeExpertPacer(model, 1, 8);
  const std::array<int, 1> slots = {4};
  experts->Receive(4, start, false);
  const MonotonicTime computed = experts->Compute({0, slots, {}}, false);
  const MonotonicTime shown = experts->Show(computed, computed + 2 * kLate);
  EXPECT_EQ(shown, computed + 2 * kLate);
  EXPECT_GT(experts->Send(shown, false), shown);
  experts->Receive(4, start, false);
  EXPECT_GT(experts->Compute({0, slots, {}}, false), shown) << "the device was busy until then";
  EXPECT_EQ(experts->counts().overruns, 1u);
}

// The assignment gave this instance nothing. All rows chose an expert that it holds too, so it
// would have computed some of the named experts that they stand for.
TEST(PacersTest, AebsSharesOutNamedExpertsWhereARowStandsForMany) {
  Topology topology;
  topology.attention.resize(1);
  topology.experts.resize(2);
  topology.placement.layers = 2;
  topology.placement.slots_of_instance = {kServedExperts, kServedExperts / 2};
  for (int layer = 0; layer < 2; ++layer) {
    for (int expert = 0; expert < kServedExperts; ++expert)
      topology.placement.expert_of.push_back(static_cast<uint16_t>(expert));
    // The second instance has the first half of the experts in layer 0, the others in layer 1.
    for (int slot = 0; slot < kServedExperts / 2; ++slot)
      topology.placement.expert_of.push_back(
          static_cast<uint16_t>(slot + layer * kServedExperts / 2));
  }
  const std::vector<int> nothing(kServedExperts / 2);
  const std::array<uint16_t, 4> routed = {0, 1, 1, 0};
  const auto takes = [&](int scale, SchedulingPolicy scheduling, int layer) {
    const TimedModel model = Timed(2, scale);
    const auto experts = MakeExpertPacer(model, topology, Rank{1}, kServedExperts, scheduling);
    const MonotonicTime come = experts->Receive(2, MonotonicTime{std::chrono::hours(1)}, false);
    return experts->Compute({layer, nothing, routed}, false) - come;
  };
  EXPECT_GT(takes(16, SchedulingPolicy::kAebs, 0).count(), 0);
  EXPECT_GT(takes(16, SchedulingPolicy::kAebsGreedy, 0).count(), 0);
  EXPECT_EQ(takes(16, SchedulingPolicy::kAebs, 1).count(), 0) << "it holds none of these";
  EXPECT_EQ(takes(1, SchedulingPolicy::kAebs, 0).count(), 0) << "rows of the named model";
  EXPECT_EQ(takes(16, SchedulingPolicy::kRandom, 0).count(), 0);
  EXPECT_EQ(takes(16, SchedulingPolicy::kStatic, 0).count(), 0);
}

TEST(PacersTest, ARoundWaitsForTheLastRowsAndTheLinkForTheRoundBefore) {
  const TimedModel model = Timed(4);
  const auto experts = MakeExpertPacer(model, 2, 8);
  const double out = model.ExchangeSeconds(2, 8, 6).out;
  const MonotonicTime sent{std::chrono::hours(1)};
  const MonotonicTime first = experts->Receive(6, sent, false);
  EXPECT_NEAR(Seconds(first - sent).count(), out, 1e-8);
  // Another micro-batch that left at the same moment comes behind it.
  EXPECT_NEAR(Seconds(experts->Receive(6, sent, false) - first).count(), out, 1e-8);
}

}  // namespace
}  // namespace janus::dataplane
