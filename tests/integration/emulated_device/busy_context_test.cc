// When the program that serves on a GPU reports that kernels run (bench/gpu/busy_context.h).

#include "bench/gpu/busy_context.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/emulated_device.h"

namespace janus::bench {
namespace {

// Each mark is a different time: 0, 1, 2, ...
class CountingClock final : public StreamClock {
 public:
  size_t Mark(const kernels::Stream&) override { return next_++; }
  double SecondsOf(size_t mark) override { return static_cast<double>(mark); }
  kernels::Stream own_stream() override { return {}; }

 private:
  size_t next_ = 0;
};

class BusyContextTest : public testing::Test {
 protected:
  BusyContextTest() : context_(std::make_unique<kernels::EmulatedDevice>(), clock_) {}

  void In() { ASSERT_TRUE(context_.CopyIn(buffer_.data(), host_, sizeof host_).ok()); }
  void Out() { ASSERT_TRUE(context_.CopyOut(host_, buffer_.data(), sizeof host_).ok()); }
  void Within() {
    ASSERT_TRUE(context_.CopyWithin(buffer_.data() + 16, buffer_.data(), sizeof host_).ok());
  }
  void Graph() { ASSERT_TRUE(context_.Replay(*graph_).ok()); }
  void StreamWait() {
    ASSERT_TRUE(context_.StreamWaitFlags(std::array{kernels::FlagCount{&flag_, 0}}).ok());
  }
  void Wait() { ASSERT_TRUE(context_.Wait().ok()); }
  // The marks of the spans, begin and end of each.
  std::vector<size_t> Spans() {
    std::vector<size_t> marks;
    for (const BusySpan& span : context_.TakeSpans()) {
      marks.push_back(span.begin);
      marks.push_back(span.end);
    }
    return marks;
  }

  CountingClock clock_;
  BusyContext context_;
  kernels::Buffer buffer_ = *context_.Allocate(64);
  std::unique_ptr<kernels::Graph> graph_ =
      *context_.RecordGraph([](const kernels::Stream&) { return OkStatus(); });
  std::byte host_[16] = {};
  kernels::Flag flag_{0};
  kernels::Buffer shown_ =
      *context_.RegisterFlags(reinterpret_cast<std::byte*>(&flag_), sizeof flag_);
};

TEST_F(BusyContextTest, MarksNothingUntilItIsToldTo) {
  In();
  Graph();
  Within();
  Out();
  Wait();
  EXPECT_TRUE(Spans().empty());
  EXPECT_EQ(clock_.Mark({}), 0u);
}

TEST_F(BusyContextTest, AGraphRunsFromBeforeItUntilAfterIt) {
  context_.Watch(true);
  Graph();
  Out();
  Wait();
  EXPECT_EQ(Spans(), (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(Spans().empty());
}

TEST_F(BusyContextTest, LaunchesRunFromACopyUpUntilWhatComesNext) {
  context_.Watch(true);
  In();   // 0 after
  Out();  // 1 before
  Wait();
  In();     // 2
  Graph();  // 3 before as the launches' end, 4 and 5 the graph's
  EXPECT_EQ(Spans(), (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(BusyContextTest, BetweenTwoCopiesUpNothingRuns) {
  context_.Watch(true);
  In();   // 0
  In();   // 1
  Out();  // 2
  EXPECT_EQ(Spans(), (std::vector<size_t>{1, 2}));
}

TEST_F(BusyContextTest, LaunchesBehindACopyWithinRunUntilACopyUp) {
  context_.Watch(true);
  Within();  // 0
  Within();  // 1 ends, 2 begins
  In();      // 3 ends, 4 begins
  Wait();
  Out();
  EXPECT_EQ(Spans(), (std::vector<size_t>{0, 1, 2, 3}));
}

TEST_F(BusyContextTest, LaunchesBetweenCopiesUpAndWithinCount) {
  context_.Watch(true);
  In();      // 0
  Within();  // 1 ends, 2 begins
  In();      // 3 ends, 4 begins
  EXPECT_EQ(Spans(), (std::vector<size_t>{0, 1, 2, 3}));
}

// No launch runs while a stream waits for another.
TEST_F(BusyContextTest, LaunchesRunUntilAndFromAWaitForFlags) {
  context_.Watch(true);
  In();          // 0 after
  StreamWait();  // 1 before as the launches' end, 2 after
  Out();         // 3
  Graph();       // 4, 5
  StreamWait();  // 6, as after a copy up
  In();          // 7
  Out();         // 8
  EXPECT_EQ(Spans(), (std::vector<size_t>{0, 1, 2, 3, 4, 5, 7, 8}));
}

TEST_F(BusyContextTest, WhatHasEndedDoesNotEndAgain) {
  context_.Watch(true);
  In();   // 0
  Out();  // 1
  Out();
  Graph();  // 2, 3
  Out();
  EXPECT_EQ(Spans(), (std::vector<size_t>{0, 1, 2, 3}));
}

TEST_F(BusyContextTest, IsTheDeviceThatItHas) {
  host_[3] = std::byte{7};
  In();
  host_[3] = std::byte{0};
  Out();
  Wait();
  EXPECT_EQ(host_[3], std::byte{7});
  EXPECT_EQ(context_.numerics(), "emulated");
  EXPECT_EQ(context_.counts().copies_in, 1u);
  EXPECT_TRUE(context_.Signal(std::array{kernels::FlagCount{&flag_, 7}}).ok());
  EXPECT_EQ(flag_, 7u);
  StreamWait();
  EXPECT_FALSE(context_.StreamWaitFlags(std::array{kernels::FlagCount{&flag_, 8}}).ok());
  const auto event = *context_.MakeTimedEvent();
  ASSERT_TRUE(context_.Record(*event).ok());
  EXPECT_EQ(*context_.Query(*event), true);
  EXPECT_EQ(context_.TimeBetween(*event, *event)->count(), 0.0);
  EXPECT_EQ(context_.Allocate(size_t{1} << 40).status().code(), StatusCode::kResourceExhausted);
}

// Ranges with the same beginning are freed one by one.
TEST_F(BusyContextTest, TheSameFlagsMayBeShownTwice) {
  kernels::Flag flags[2] = {};
  auto* const begin = reinterpret_cast<std::byte*>(flags);
  kernels::Buffer both = *context_.RegisterFlags(begin, sizeof flags);
  kernels::Buffer first = *context_.RegisterFlags(begin, sizeof flags[0]);
  const auto raise = [&](size_t i) {
    return context_.Signal(std::array{kernels::FlagCount{&flags[i], 1}}).ok();
  };
  first = kernels::Buffer();
  EXPECT_TRUE(raise(1));
  first = *context_.RegisterFlags(begin, sizeof flags[0]);
  both = kernels::Buffer();
  EXPECT_TRUE(raise(0));
  EXPECT_FALSE(raise(1));
  first = kernels::Buffer();
  EXPECT_FALSE(raise(0));
}

TEST(UncoveredShare, CountsWhatSpansShareOnce) {
  EXPECT_DOUBLE_EQ(UncoveredShare({}, 0.0, 4.0), 1.0);
  EXPECT_DOUBLE_EQ(UncoveredShare({{1.0, 2.0}}, 0.0, 4.0), 0.75);
  EXPECT_DOUBLE_EQ(UncoveredShare({{2.5, 3.0}, {1.0, 2.0}, {1.5, 1.75}, {1.5, 2.5}}, 0.0, 4.0),
                   0.5);
  EXPECT_DOUBLE_EQ(UncoveredShare({{-1.0, 1.0}, {3.0, 9.0}, {10.0, 11.0}}, 0.0, 4.0), 0.5);
  EXPECT_DOUBLE_EQ(UncoveredShare({{0.0, 1.0}}, 2.0, 2.0), 0.0);
}

}  // namespace
}  // namespace janus::bench
