#include "cli/plan/command.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace janus::cli {
namespace {

PlanOptions Asking(const char* model, const char* hardware) {
  PlanOptions options;
  options.setting.model = model;
  options.setting.attention_hardware = options.setting.expert_hardware = hardware;
  return options;
}

bool Has(const Result<std::string>& text, const char* part) {
  return text.ok() && text->find(part) != std::string::npos;
}

TEST(PlanCommand, TellsThePlanTheRunnersUpAndTheWhole) {
  PlanOptions options = Asking("deepseek-v2", "H100");
  options.tpot_milliseconds = 200;
  options.batch = 64;
  options.context = 144;
  const Result<std::string> text = Plan(options);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_TRUE(Has(text, "1A7E"));
  EXPECT_TRUE(Has(text, "costs ")) << *text;
  EXPECT_TRUE(Has(text, "batch limit 64 an attention instance")) << *text;
  EXPECT_TRUE(Has(text, "NOT SEPARATED")) << *text;
  EXPECT_TRUE(Has(text, "TP8")) << *text;
  EXPECT_TRUE(Has(text, "ADVICE: do not separate")) << "8 GPUs hold it whole, twice as quick";
}

TEST(PlanCommand, JsonHasWhatAServiceIsMadeOf) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.json = true;
  options.fixed_point = true;
  const Result<std::string> text = Plan(options);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto root = nlohmann::json::parse(*text);
  const auto& best = root.at("plans").at(0);
  for (const char* field : {"attentionInstances", "expertInstances", "microBatches", "exchangeMode",
                            "gate", "sum", "slotsPerInstance", "maxBatchSize"}) {
    EXPECT_TRUE(best.contains(field)) << field;
  }
  EXPECT_GE(best.at("slotsPerInstance").get<int>() * best.at("expertInstances").get<int>(), 256);
  EXPECT_GE(best.at("maxBatchSize").get<double>() * best.at("attentionInstances").get<int>(),
            best.at("batch").get<double>());
  ASSERT_GT(root.at("notSeparated").size(), 1u);
  EXPECT_FALSE(root.at("notSeparated").at(0).contains("lostBy"));
  EXPECT_TRUE(root.at("notSeparated").at(1).contains("lostBy"));
}

TEST(PlanCommand, ConstraintsHaveAPrice) {
  PlanOptions options = Asking("deepseek-v2", "H100");
  options.batch = 512;
  EXPECT_FALSE(Has(Plan(options), "dearer than"));
  options.survivable = options.whole_pods = true;
  options.instances_per_pod = 4;
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, "survivable and in whole pods: ")) << text.status().ToString();
  EXPECT_FALSE(Has(text, ": 0.0 % dearer"));
}

TEST(PlanCommand, TimesToTheFirstTokenStandBesideMixServes) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 1024;
  options.traffic = {5, 1000, 200};
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, "first token p95 ")) << text.status().ToString();
  EXPECT_TRUE(Has(text, "by MixServe's eq. 5-11: communication ")) << *text;
  options.traffic.requests_per_second = 1e6;
  EXPECT_TRUE(Has(Plan(options), "never: prompts come faster than steps have room for"));
}

TEST(PlanCommand, BadInputSaysWhatToDo) {
  const auto says = [](const PlanOptions& options, const char* part) {
    const Status status = Plan(options).status();
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status.ToString();
  };
  says(PlanOptions{}, "want --model");
  says(Asking("gpt", "H100"), "known: deepseek-v2");
  says(Asking("deepseek-v3", "H900"), "no hardware 'H900'");
  PlanOptions options = Asking("deepseek-v3", "L40S");
  options.max_expert_gpus = 4;
  says(options, "does not fit");
  options = Asking("deepseek-v3", "H200");
  options.tpot_milliseconds = 0.5;
  says(options, "no plan keeps a TPOT of 0.5 ms");
  for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), -1., HUGE_VAL}) {
    options = Asking("deepseek-v3", "H200");
    options.tpot_milliseconds = wrong;
    says(options, "want a positive number");
    options = Asking("deepseek-v3", "H200");
    options.batch = wrong;
    says(options, "want sequences");
    options = Asking("deepseek-v3", "H200");
    options.context = wrong;
    says(options, "want at least 1");
  }
}

}  // namespace
}  // namespace janus::cli
