#include "cli/explain/explain.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/explain/replay.h"
#include "common/hardware.h"
#include "controllers/plan/model_shape.h"
#include "operator/records/record_lines.h"
#include "tests/support/contains.h"

namespace janus::cli {
namespace {

constexpr auto kRecords = R"({
  "namespace": "default", "name": "chat", "time": 1000.5, "emulated": "",
  "targets": {"tpotSeconds": 0.1, "tpotPercentile": 0.95, "ttftSeconds": null, "ttftPercentile": null},
  "now": {"microBatches": 1,
          "attention": {"wanted": 2, "ready": 1, "starting": 1, "draining": 0},
          "experts": {"wanted": 8, "ready": 8, "starting": 0, "draining": 0}},
  "modelError": {"step": 0.043, "stepUncorrected": 0.09, "samples": 20},
  "series": [
    {"t": 600, "tpotSeconds": 0.9, "ended": 100, "attained": 0},
    {"t": 985, "requestsPerSecond": 1.9, "promptTokensPerSecond": 380, "running": 12, "waiting": 3,
     "tpotSeconds": 0.054, "predictedTpotSeconds": 0.0512, "ended": 40, "attained": 39}],
  "decisions": [
    {"t": 700, "action": "ScaleUp", "from": "1A8E", "to": "2A8E", "reason": "SLOViolated",
     "message": "it was slow", "limitedBy": "", "predictedTpotSeconds": 0.0544, "cost": 10,
     "candidates": [
       {"counts": "2A8E", "tpotSeconds": 0.0544, "ttftSeconds": null, "pressure": 0.6, "gpus": 10,
        "cost": 10, "lostBy": ""},
       {"counts": "3A8E", "tpotSeconds": 0.05, "ttftSeconds": null, "pressure": 0.5, "gpus": 11,
        "cost": 11, "lostBy": "costs 11, the chosen 10"},
       {"counts": "1A8E", "tpotSeconds": null, "ttftSeconds": null, "pressure": null, "gpus": 9,
        "cost": 9, "lostBy": "at inf % of a target"}]},
    {"t": 985, "action": "Hold", "from": "2A8E", "to": "2A8E", "reason": "AtMax",
     "message": "no more are allowed", "limitedBy": "spec.scaling.maxGPUs", "candidates": []}],
  "placement": {"t": 400, "message": "the placement stays"}
})";

TEST(ExplainText, SaysWhyTheCountsAreAsTheyAre) {
  const Result<std::string> text = ExplainText(kRecords);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(*text,
            "default/chat\n"
            "attention:   1 ready of 2, 1 starting\n"
            "experts:     8 ready of 8\n"
            "target:      TPOT 100.0 ms for 95 % of requests\n"
            "load:        1.90 requests/s, 380 prompt tokens/s, 12 running, 3 waiting\n"
            "TPOT:        54.0 ms observed, 51.2 ms predicted\n"
            "attainment:  97.5 % of 40 requests in the last 5 minutes\n"
            "\n"
            "last decision\n"
            "  Hold at 2A8E, AtMax (15s ago)\n"
            "    no more are allowed\n"
            "    limited by spec.scaling.maxGPUs\n"
            "last change\n"
            "  ScaleUp from 1A8E to 2A8E, SLOViolated (5m ago)\n"
            "    it was slow\n"
            "    expected TPOT 54.4 ms, observed median since then 54.0 ms\n"
            "  what was weighed (pressure: above 1 it breaks a target or has no room):\n"
            "    COUNTS   TPOT      TTFT   GPUS   COST   PRESSURE   WHY NOT\n"
            "    2A8E     54.4 ms   -      10     10     0.60       (chosen)\n"
            "    3A8E     50.0 ms   -      11     11     0.50       costs 11, the chosen 10\n"
            "    1A8E     -         -      9      9      -          at inf % of a target\n"
            "\n"
            "predictions: of steps, 4.3 % off in the median of 20 samples; 9.0 % without what was "
            "learned\n"
            "placement: the placement stays (10m ago)\n");
}

// As the operator answers before its first decision.
constexpr auto kHeld = R"({
  "namespace": "default", "name": "new", "time": 1000.5, "emulated": "H200", "series": [],
  "hold": {"t": 990, "at": "1A2E", "reason": "EmulationLate", "message": "lower timeScale"},
  "decisions": [], "placement": null})";

TEST(ExplainText, SaysWhyNothingWasDecidedYet) {
  const Result<std::string> text = ExplainText(kHeld);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(*text,
            "default/new\n"
            "emulated:    H200\n"
            "no decision was made yet: held at 1A2E, EmulationLate (10s ago)\n"
            "    lower timeScale\n"
            "placement: no routing was sampled yet\n");
}

TEST(ExplainText, SaysWhatHoldsAfterTheLastDecision) {
  std::string records = kRecords;
  records.insert(records.rfind('}'),
                 R"(, "hold": {"t": 1000, "at": "2A8E", "reason": "NoMetrics", "message": "m"})");
  const Result<std::string> text = ExplainText(records);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_TRUE(Contains(*text,
                       "\nnow held at 2A8E, NoMetrics (0s ago)\n    m\n\nlast decision\n"
                       "  Hold at 2A8E, AtMax (15s ago)\n"))
      << *text;
  const Result<std::string> top = TopText({records});
  ASSERT_TRUE(top.ok()) << top.status().ToString();
  EXPECT_TRUE(Contains(*top, "97.5 %     Hold, NoMetrics   0s ago")) << *top;
}

TEST(ExplainText, RefusesWhatIsNoRecord) {
  EXPECT_FALSE(ExplainText("{").ok());
  EXPECT_EQ(ExplainText("{\"time\": 1}").status().code(), StatusCode::kInvalidArgument);
}

TEST(TopText, HasOneLinePerService) {
  const Result<std::string> text =
      TopText({kRecords, R"({"namespace": "a", "name": "new", "time": 1, "series": [],
                             "decisions": []})",
               kHeld});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_TRUE(Contains(*text, "default/chat   1/2         8/8       1.90")) << *text;
  EXPECT_TRUE(Contains(*text, "97.5 %     Hold, AtMax           15s ago")) << *text;
  EXPECT_TRUE(Contains(*text, "a/new")) << *text;
  EXPECT_TRUE(Contains(*text, "none yet")) << *text;
  EXPECT_TRUE(Contains(*text, "Hold, EmulationLate")) << *text;
}

TEST(ReplayText, NamesTheLineThatCannotBeRead) {
  EXPECT_EQ(ReplayText("", {}).status().message(), "the records hold no decision yet");
  EXPECT_TRUE(Contains(ReplayText("\nworld time_seconds=1\n", {}).status().message(),
                       "line 2: 'world time_seconds=1' cannot stand here"));
  EXPECT_TRUE(Contains(ReplayText("setting seconds=x\n", {}).status().message(),
                       "line 1: setting: wanted seconds=<number>, found 'x'"));
}

// A hold without arrivals in each minute of two hours.
std::vector<std::shared_ptr<const control::TickRecord>> TwoHours(bool has_begin) {
  auto setting = std::make_shared<control::RecordedSetting>();
  setting->inputs.model = *controllers::FindModel("mixtral-8x22b");
  setting->inputs.attention = setting->inputs.experts = *FindHardware("H200");
  setting->inputs.options.max_attention = setting->inputs.options.max_experts = 8;
  const controllers::Predictor predictor = *control::BuildPredictor(setting->inputs);
  std::vector<std::shared_ptr<const control::TickRecord>> out;
  for (int minute = 0; minute < 120; ++minute) {
    control::TickRecord tick;
    tick.setting = setting;
    tick.begins = has_begin && minute == 0;
    tick.world.time_seconds = 60 * minute;
    tick.decision = controllers::Decide(predictor, setting->policy, tick.world, {}).decision;
    out.push_back(std::make_shared<const control::TickRecord>(std::move(tick)));
  }
  return out;
}

TEST(ReplayText, SaysWhatRecordsWithoutTheirBeginCannotShow) {
  const Result<std::string> whole = ReplayText(control::ToLines(TwoHours(true)), {});
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_TRUE(Contains(*whole, "120 of 120 are the same again")) << *whole;
  EXPECT_FALSE(Contains(*whole, "not compared")) << *whole;
  const Result<std::string> part = ReplayText(control::ToLines(TwoHours(false)), {});
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  EXPECT_TRUE(Contains(*part, "60 of 60 are the same again")) << *part;
  EXPECT_TRUE(Contains(*part, "60 at the beginning are not compared")) << *part;
  EXPECT_TRUE(Contains(*part, "later ones may differ too")) << *part;
}

}  // namespace
}  // namespace janus::cli
