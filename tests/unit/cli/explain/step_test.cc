#include "cli/explain/step.h"

#include <gtest/gtest.h>

#include "tests/support/contains.h"

namespace janus::cli {
namespace {

// One layer of 1A2E with two micro-batches, 100 us long.
control::StepPage APage() {
  constexpr int64_t kMicrosecond = 1000;
  const auto span = [](StepWork work, int micro_batch, int64_t microseconds) {
    return StepSpan{work, 0, micro_batch, microseconds * kMicrosecond};
  };
  using enum StepWork;
  control::StepPage page;
  page.service = {"default", "chat"};
  page.age_seconds = 4;
  page.instances = {{Role::kAttention,
                     Rank{0},
                     2,
                     32,
                     1,
                     0,
                     {span(kAttention, 0, 20), span(kSend, 0, 10), span(kAttention, 1, 20),
                      span(kSend, 1, 10), span(kReceive, 0, 10), span(kCombine, 0, 10),
                      span(kReceive, 1, 10), span(kCombine, 1, 10)}},
                    {Role::kExperts,
                     Rank{0},
                     2,
                     32,
                     1,
                     0,
                     {span(kReceive, 0, 30), span(kExperts, 0, 20), span(kSend, 0, 10),
                      span(kReceive, 1, 10), span(kExperts, 1, 10), span(kSend, 1, 10)}},
                    {Role::kExperts,
                     Rank{1},
                     2,
                     32,
                     1,
                     0,
                     {span(kReceive, 0, 30), span(kExperts, 0, 10), span(kSend, 0, 10),
                      span(kReceive, 1, 10), span(kExperts, 1, 10), span(kSend, 1, 10)}}};
  return page;
}

TEST(StepText, DrawsEachInstanceAndMicroBatch) {
  EXPECT_EQ(StepText(APage(), 0, 20),
            "default/chat: step 32 of epoch 2, 4 s ago; MoE layer 1 of 1; 100 us\n"
            "\n"
            "attention 0 1 |AAAAss      ..cc\n"
            "            2 |      AAAAss    ..cc\n"
            "experts 0   1 |......XXXXss\n"
            "            2 |            ..XXss\n"
            "experts 1   1 |......XXss\n"
            "            2 |          ..XXss\n"
            "\n"
            "o host, k kernels, A attention, s send, h shared experts, . receive, c combine, "
            "g gate, b AEBS, X experts; a line for each micro-batch\n"
            "\n"
            "attention 0  attention 40 us (40 %), send 20 us (20 %), receive 20 us (20 %), "
            "combine 20 us (20 %)\n"
            "experts 0    receive 40 us (40 %), experts 30 us (30 %), send 20 us (20 %)\n"
            "experts 1    receive 40 us (40 %), send 20 us (20 %), experts 20 us (20 %)\n"
            "\n"
            "experts 0 answers last in 2 of 2 rounds.\n");
}

TEST(StepText, SaysHowFarClocksMayBeOff) {
  control::StepPage page = APage();
  page.clock_error_ns = 7000;
  EXPECT_TRUE(Contains(StepText(page, 0, 20), "their places are exact to 7 us."));
}

TEST(StepHtml, HasATextForEachPieceOfTime) {
  control::StepPage page = APage();
  page.service.name = "<b>";
  const std::string html = StepHtml(page, 0);
  EXPECT_TRUE(Contains(html, "<title>experts, 20 us; layer 1, micro-batch 1</title>"));
  EXPECT_TRUE(Contains(html, "default/&lt;b&gt;: step 32"));
  EXPECT_FALSE(Contains(html, "<b>"));
  EXPECT_FALSE(Contains(html, "http"));
}

TEST(StepPage, IsReadAsItIsWritten) {
  auto statistics = std::make_shared<Statistics>();
  statistics->traces = APage().instances;
  for (StepTrace& one : statistics->traces) one.began_ns += 1'000'000;
  const WallTime told(std::chrono::seconds(100));
  const std::string json = control::StepJson({"default", "chat"}, {told, statistics}, {1},
                                             told + std::chrono::seconds(4));
  const Result<control::StepPage> page = control::ParseStepJson(json);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->instances, APage().instances);
  EXPECT_EQ(page->age_seconds, 4);
  EXPECT_EQ(StepText(*page, 0, 20), StepText(APage(), 0, 20));
}

TEST(StepPage, NamesItsPoolWhereThereAreSeveral) {
  auto statistics = std::make_shared<Statistics>();
  statistics->traces = APage().instances;
  const WallTime told(std::chrono::seconds(100));
  const Result<control::StepPage> page = control::ParseStepJson(
      control::StepJson({"default", "chat"}, {told, statistics, 2}, {1, 2, 3}, told));
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  EXPECT_EQ(page->pool, 2);
  const std::string text = StepText(*page, 0, 20);
  EXPECT_TRUE(text.starts_with("default/chat, pool 2: step 32 of epoch ")) << text;
  EXPECT_TRUE(Contains(text, "Steps of other pools: --pool 1, 3.")) << text;
}

TEST(StepPage, WhatIsNoneIsRefusedWithTheField) {
  const auto why = [](const std::string& text) {
    return control::ParseStepJson(text).status().ToString();
  };
  EXPECT_TRUE(Contains(why("{"), "the step's page"));
  EXPECT_TRUE(Contains(why("{}"), "ageMilliseconds is missing"));
  const std::string begin =
      R"({"ageMilliseconds":0,"clockErrorNanoseconds":0,"epoch":1,"step":1,"layers":1,"instances":)";
  EXPECT_TRUE(Contains(why(begin + "[]}"), "instances is empty"));
  EXPECT_TRUE(Contains(why(R"({"pool":9,"pools":[])" + ("," + begin.substr(1)) + "[]}"),
                       "pool is missing, or no integer from 1 to 8"));
  const std::string instance =
      begin + R"([{"role":"experts","rank":0,"beganNanoseconds":0,"spans":)";
  EXPECT_EQ(control::ParseStepJson(instance + "[]}]}").status(), OkStatus());
  EXPECT_TRUE(Contains(why(instance + "[[1,0,0]]}]}"), "a span is no list of four integers"));
  EXPECT_TRUE(Contains(why(instance + "[[11,0,0,1]]}]}"), "from 1 to 10"));
  EXPECT_TRUE(Contains(why(instance + "[[1,0,9,1]]}]}"), "an entry of a span"));
}

}  // namespace
}  // namespace janus::cli
