#include "cli/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace janus::cli {
namespace {

InstanceStatistics Attention(int rank, uint64_t steps, uint64_t rows, uint64_t tokens) {
  InstanceStatistics one;
  one.role = Role::kAttention;
  one.rank = Rank{rank};
  one.steps = steps;
  one.rows = rows;
  one.tokens = tokens;
  one.running = 3;
  one.waiting = 1;
  one.compute_seconds = static_cast<double>(steps);
  one.wait_seconds = static_cast<double>(steps);
  one.host_seconds = 0.25 * static_cast<double>(steps);
  one.kv_tokens_used = 25;
  one.kv_tokens_capacity = 100;
  one.tpot_seconds_median = 0.020;
  one.resident_bytes = 1'000'000;
  return one;
}

InstanceStatistics Experts(int rank, uint64_t rounds, uint64_t activated) {
  InstanceStatistics one;
  one.role = Role::kExperts;
  one.rank = Rank{rank};
  one.rounds = rounds;
  one.activated_experts = activated;
  one.resident_bytes = 2'000'000;
  return one;
}

Statistics Before() {
  return {1,
          {Experts(0, 100, 200), Experts(1, 100, 100), Attention(0, 50, 100, 80),
           Attention(1, 50, 60, 50)}};
}
Statistics After() {
  return {1,
          {Experts(0, 200, 500), Experts(1, 200, 300), Attention(0, 60, 140, 120),
           Attention(1, 60, 80, 70)}};
}

TEST(Summarize, TakesRatesFromTheTimeBetween) {
  const ServiceView view = Summarize(Before(), After(), Seconds(2));
  EXPECT_EQ(view.m, 2);
  EXPECT_EQ(view.n, 2);
  EXPECT_EQ(view.running, 6u);
  EXPECT_EQ(view.waiting, 2u);
  EXPECT_DOUBLE_EQ(view.batch, 4.0 + 2.0);
  EXPECT_DOUBLE_EQ(view.tokens_per_second, (40 + 20) / 2.0);
  EXPECT_DOUBLE_EQ(view.steps_per_second, 5.0);
  EXPECT_DOUBLE_EQ(view.activated_experts, 3.0 + 2.0);
  EXPECT_DOUBLE_EQ(view.busiest_experts, 3.0);
  EXPECT_DOUBLE_EQ(view.tpot_seconds, 0.020);
  EXPECT_DOUBLE_EQ(view.kv_used, 0.25);
  EXPECT_DOUBLE_EQ(view.cpu_share, 0.125);
  EXPECT_EQ(view.resident_bytes, 6'000'000u);
  EXPECT_EQ(view.tokens, 190u);
}

TEST(Summarize, IsZeroWithoutStepsOrTime) {
  const ServiceView idle = Summarize(After(), After(), Seconds(1));
  EXPECT_EQ(idle.batch, 0);
  EXPECT_EQ(idle.tokens_per_second, 0);
  EXPECT_EQ(idle.activated_experts, 0);
  EXPECT_EQ(Summarize({}, {}, Seconds(0)).m, 0);
}

TEST(Summarize, BeginsAnewForARestartedWorker) {
  Statistics now = After();
  now.instances[2] = Attention(0, 5, 10, 4);
  const ServiceView view = Summarize(Before(), now, Seconds(1));
  EXPECT_DOUBLE_EQ(view.tokens_per_second, 4 + 20);
}

TEST(RenderTable, HasOneLineForTheServiceAndOneForEachInstance) {
  const ServiceView view = Summarize(Before(), After(), Seconds(2));
  const std::string text = RenderTable("heading", view, Before(), After(), Seconds(2));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 1 + 4);
  EXPECT_NE(text.find("2A2E"), std::string::npos) << text;
  EXPECT_LT(text.find("    A1 "), text.find("    E0 ")) << text;
  EXPECT_NE(text.find("    E1 "), std::string::npos) << text;
  EXPECT_NE(text.find("30.0"), std::string::npos) << text;
  EXPECT_NE(text.find("20.0"), std::string::npos) << text;
}

TEST(RenderTable, FitsEightyColumns) {
  Statistics now = After();
  for (InstanceStatistics& one : now.instances) {
    one.tokens += 123'456'789;
    one.resident_bytes = 999'000'000'000;
    one.running = 4096;
  }
  const std::string text =
      RenderTable("heading", Summarize(Before(), now, Seconds(1)), Before(), now, Seconds(1));
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 80u) << text;
    begin = end + 1;
  }
}

TEST(RenderTable, SaysHowOftenAStepWasGivenUp) {
  Statistics now = After();
  for (InstanceStatistics& one : now.instances) {
    one.steps_aborted = 3;  // all members abort each
    one.rounds_missed = 2;
  }
  const ServiceView view = Summarize(Before(), now, Seconds(2));
  EXPECT_EQ(view.steps_aborted, 3u);
  const std::string text = RenderTable("heading", view, Before(), now, Seconds(2));
  EXPECT_NE(text.find("\n3 steps aborted and repeated, 8 rounds missed\n"), std::string::npos)
      << text;
  EXPECT_TRUE(RenderLine(view).ends_with(" steps aborted 3 rounds missed 8")) << RenderLine(view);
}

TEST(RenderTable, SaysThatTimesAreEmulatedAndWhetherTheRunIsVoid) {
  Statistics before = Before(), now = After();
  for (Statistics* const look : {&before, &now}) {
    for (InstanceStatistics& one : look->instances) {
      one.timed = "H200 as deepseek-v3, scale 64, time scale 1";
      one.timed_waits = 1000;
      one.timed_overruns = 500;
    }
  }
  for (InstanceStatistics& one : now.instances) one.timed_waits = 2000;
  ServiceView view = Summarize(before, now, Seconds(2));
  EXPECT_FALSE(view.is_void) << "what overran before does not count";
  EXPECT_TRUE(RenderTable("heading", view, before, now, Seconds(2))
                  .ends_with("\nemulated: H200 as deepseek-v3, scale 64, time scale 1\n"));
  EXPECT_TRUE(RenderLine(view).ends_with(" emulated")) << RenderLine(view);
  now.instances[0].timed_overruns = 541;  // of 4000
  view = Summarize(before, now, Seconds(2));
  EXPECT_TRUE(view.is_void);
  const std::string text = RenderTable("heading", view, before, now, Seconds(2));
  EXPECT_NE(text.find("time scale 1; void: more than 1 % of the results came late\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(
      RenderLine(view).ends_with(" emulated; void: more than 1 % of the results came late"));
}

TEST(Summarize, TakesTheStepForTpotUntilARequestHasFinished) {
  Statistics now = After();
  now.instances[2].tpot_seconds_median = 0;
  now.instances[2].step_seconds_median = 0.004;
  EXPECT_DOUBLE_EQ(Summarize(Before(), now, Seconds(1)).tpot_seconds, (0.004 + 0.020) / 2);
}

TEST(RenderLine, IsOneLine) {
  const std::string line = RenderLine(Summarize(Before(), After(), Seconds(2)));
  EXPECT_EQ(line,
            "2A2E running 6 waiting 2 batch 6.0 tokens/s 30.0 TPOT 20.0 ms activated experts "
            "5.0 KV 25.0 % CPU 12.5 %");
}

}  // namespace
}  // namespace janus::cli
