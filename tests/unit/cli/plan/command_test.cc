#include "cli/plan/command.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/plan/inputs.h"

namespace janus::cli {
namespace {

PlanOptions Asking(const char* model, const char* hardware) {
  PlanOptions options;
  options.setting.model = model;
  options.setting.attention_hardware = options.setting.expert_hardware = hardware;
  return options;
}

std::string Written(const std::string& csv) {
  const std::string path = testing::TempDir() + "plan_trace.csv";
  std::ofstream(path) << csv;
  return path;
}

bool Has(const Result<std::string>& text, const char* part) {
  return text.ok() && text->find(part) != std::string::npos;
}

bool Says(const Result<std::string>& text, const char* part) {
  return !text.ok() && text.status().message().find(part) != std::string::npos;
}

// A folder with DeepSeek-V3's config.json, without the fields that have its defaults.
std::string DeepSeekV3Folder(const std::string& quantization =
                                 R"({"quant_method": "fp8", "weight_block_size": [128, 128]})") {
  const std::string folder = testing::TempDir() + "plan_deepseek_v3";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/config.json") << R"({
    "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432,
    "max_position_embeddings": 163840, "num_attention_heads": 128, "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "torch_dtype": "bfloat16",
    "quantization_config": )" << quantization
                                         << R"(, "vocab_size": 129280})";
  return folder;
}

TEST(PlanInputs, ReadThePresetFromItsConfig) {
  const Result<controllers::ModelShape> read = ReadModel(DeepSeekV3Folder());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const controllers::ModelShape preset = *controllers::FindModel("deepseek-v3");
  EXPECT_EQ(read->layers, preset.layers);
  EXPECT_EQ(read->dense_layers, preset.dense_layers);
  EXPECT_EQ(read->dense_intermediate, preset.dense_intermediate);
  EXPECT_EQ(read->hidden, preset.hidden);
  EXPECT_EQ(read->heads, preset.heads);
  EXPECT_TRUE(read->IsLatent());
  EXPECT_EQ(read->head_dim, preset.head_dim);
  EXPECT_EQ(read->head_weights, preset.head_weights);
  EXPECT_EQ(read->shared_weights, preset.shared_weights);
  EXPECT_EQ(read->experts, preset.experts);
  EXPECT_EQ(read->top_k, preset.top_k);
  EXPECT_EQ(read->intermediate, preset.intermediate);
  EXPECT_EQ(read->shared_intermediate, preset.shared_intermediate);
  EXPECT_EQ(read->vocab, preset.vocab);
  EXPECT_EQ(read->bytes_per_weight, preset.bytes_per_weight);
  EXPECT_EQ(read->bytes_per_dense_weight, 2);  // cast when it is loaded; the preset computes in fp8
}

TEST(PlanInputs, CountScalesOfMxfp4AndNoneOfItsAttention) {
  const Result<controllers::ModelShape> read = ReadModel(DeepSeekV3Folder(
      R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}})"));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->bytes_per_weight, 17.0 / 32.0);
  EXPECT_EQ(read->bytes_per_dense_weight, 2);
  EXPECT_EQ(read->bytes_per_kv_value, 2);
}

TEST(PlanInputs, CountACacheInFp8) {
  SettingOptions options;
  options.model = DeepSeekV3Folder();
  EXPECT_NEAR(ReadSetting(options)->model.KvBytesPerToken(1), 576 * 2 * 61, 1e-6);
  options.fp8_kv_cache = true;
  EXPECT_NEAR(ReadSetting(options)->model.KvBytesPerToken(1), 656 * 61, 1e-6);
}

TEST(PlanCommand, PlansACheckpointsConfig) {
  const std::string folder = DeepSeekV3Folder();
  PlanOptions options = Asking(folder.c_str(), "H200");
  options.tpot_milliseconds = 100;
  options.batch = 512;
  options.context = 1024;
  const Result<std::string> text = Plan(options);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_TRUE(Has(text, "deepseek_v3")) << *text;
  EXPECT_TRUE(Has(text, "costs ")) << *text;
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
  EXPECT_TRUE(Has(text, "batch limit 64 per attention instance")) << *text;
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
  EXPECT_FALSE(Has(Plan(options), " % more than"));
  options.survivable = options.whole_pods = true;
  options.instances_per_pod = 4;
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, "survivable and in whole pods: ")) << text.status().ToString();
  EXPECT_FALSE(Has(text, "costs 0.0 % more"));
}

TEST(PlanCommand, TimesToTheFirstTokenStandBesideMixServes) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 1024;
  options.traffic = {5, 1000, 200};
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, "first token p95 ")) << text.status().ToString();
  EXPECT_TRUE(Has(text, "prompt lengths exponential with this mean")) << *text;
  EXPECT_TRUE(Has(text, "by MixServe's eq. 5-11: communication ")) << *text;
  options.traffic.requests_per_second = 1e6;
  options.traffic.output_tokens = 1;
  EXPECT_TRUE(Says(Plan(options), "the traffic needs 1000000 tokens/s"));
  options.traffic = {40, 4000, 10};
  options.max_attention_gpus = 4;
  options.max_expert_gpus = 8;
  EXPECT_TRUE(Says(Plan(options), "a step of 100 ms is too short for the requests that arrive"));
}

// With hardly any arrivals, the figure is a step and the prompt at the percentile, which for
// exponential lengths is 3.0 times the mean.
TEST(PlanCommand, TheFirstTokenIsThatOfALongPrompt) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 256;
  options.traffic = {1e-6, 20'000, 200};
  options.json = true;
  const auto best = nlohmann::json::parse(*Plan(options)).at("plans").at(0);
  const auto& token = best.at("firstToken");
  const double step = options.tpot_milliseconds / 1e3;
  const double rows_per_second = token.at("promptRowsOfAStep").get<double>() /
                                 best.at("attentionInstances").get<double>() / step;
  const double expected = step + std::log(20) * options.traffic.prompt_tokens / rows_per_second;
  EXPECT_NEAR(token.at("seconds").get<double>(), expected, 0.01 * expected);
}

// Eight sequences at once cannot produce the 20,000 tokens/s of 50 requests/s.
TEST(PlanCommand, APlanThatDoesNotCarryTheTrafficIsNotChosen) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 8;
  options.traffic = {50, 100, 400};
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Says(text, "no plan that was tried carries the traffic"));
  EXPECT_TRUE(Says(text, "the traffic needs 20000 tokens/s, and the plan decodes at most "));
}

// Without a batch, the traffic determines how many sequences there are, and its lengths their
// context.
TEST(PlanCommand, TrafficAloneIsALoadToCarry) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.traffic = {500, 600, 110};
  options.ttft_seconds = 2;
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, ", context 655, ")) << text.status().ToString();
  options.json = true;
  const auto best = nlohmann::json::parse(*Plan(options)).at("plans").at(0);
  EXPECT_LE(best.at("firstToken").at("seconds").get<double>(), 2);
  EXPECT_LE(best.at("tpotMicroseconds").get<double>(), 100e3);
  EXPECT_NEAR(best.at("tokensPerSecond").get<double>(), 55'000, 600);
}

TEST(PlanCommand, MarksWhatThisVersionCannotRunAndLeavesItOut) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 1024;
  const Result<std::string> all = Plan(options);
  EXPECT_TRUE(Has(all, "E *")) << *all;
  EXPECT_TRUE(Has(all, "* this version cannot serve: ")) << *all;
  options.served = true;
  const Result<std::string> served = Plan(options);
  EXPECT_FALSE(Has(served, "* this version cannot serve: ")) << *served;
  EXPECT_TRUE(Has(served, "Direct ")) << *served;
  EXPECT_TRUE(Has(served, " GPUS ")) << *served;
}

TEST(PlanCommand, TwoPhasesAreServedWherePodsHaveSeveralInstances) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 1024;
  options.served = true;
  options.pins.mode = ExchangeMode::kTwoPhaseParallel;
  const Result<std::string> served = Plan(options);
  EXPECT_TRUE(Has(served, "TwoPhaseParallel ")) << served.status().ToString();
  options.exchange.attention_per_node = options.exchange.experts_per_node = 1;
  EXPECT_FALSE(Plan(options).ok());
  options.served = false;
  EXPECT_TRUE(Has(Plan(options), "two phases with pods of one instance"));
  options.instances_per_pod = 4;  // the service's pods win
  EXPECT_TRUE(Has(Plan(options), "two phases with pods of one instance"));
}

TEST(PlanCommand, SumsOf24BitsAreNoSlowerThanOf32) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.json = true;
  options.pins.attention = 16;
  options.pins.experts = 16;
  options.pins.mode = ExchangeMode::kTwoPhaseParallel;
  options.pins.sum = SumRule::kFixedPoint;
  options.batch = 4096;
  const auto back = [&](int bits) {
    options.exchange.sum_bits = bits;
    const auto plan = nlohmann::json::parse(*Plan(options)).at("plans").at(0);
    EXPECT_EQ(plan.at("sumBits"), bits);
    return plan.at("layerMicroseconds").at("back").get<double>() *
           plan.at("microBatches").get<double>();
  };
  EXPECT_LT(back(24), 0.95 * back(32));
}

TEST(PlanCommand, WhatIsSaidIsNotSearchedFor) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 1024;
  options.json = true;
  options.pins.attention = 8;
  options.pins.experts = 16;
  options.pins.micro_batches = 2;
  options.pins.wire = controllers::WireFormat::kFp8;
  options.pins.whole = "DP16 EP16";
  const auto root = nlohmann::json::parse(*Plan(options));
  ASSERT_EQ(root.at("plans").size(), 1u);
  const auto& plan = root.at("plans").at(0);
  EXPECT_EQ(plan.at("attentionInstances"), 8);
  EXPECT_EQ(plan.at("expertInstances"), 16);
  EXPECT_EQ(plan.at("microBatches"), 2);
  EXPECT_EQ(plan.at("compression"), "FP8");
  for (const auto& whole : root.at("notSeparated")) EXPECT_EQ(whole.at("strategy"), "DP16 EP16");
}

// A batch that no single pool can keep is shared by several.
TEST(PlanCommand, ALargeBatchTakesPools) {
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.tpot_milliseconds = 50;
  options.context = 200;
  options.batch = 30'000;
  options.json = true;
  const auto plan = nlohmann::json::parse(*Plan(options)).at("plans").at(0);
  EXPECT_GE(plan.at("pools").get<int>(), 2);
  EXPECT_NEAR(plan.at("batch").get<double>(), 30'000, 1e-6);
  EXPECT_LE(plan.at("tpotMicroseconds").get<double>(), 50e3);
  options.max_pools = 1;
  EXPECT_EQ(Plan(options).status().code(), StatusCode::kFailedPrecondition);
}

TEST(PlanCommand, AFirstTokenIsAGoal) {
  PlanOptions options = Asking("deepseek-v2", "H100");
  options.batch = 256;
  options.traffic = {4, 2000, 200};
  options.ttft_seconds = 1;
  options.ttft_percentile = 0.9;
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, "\ntarget for the first token: 1 s at p90\n")) << *text;
  EXPECT_TRUE(Has(text, " s, the target is 1 s\n")) << *text;
  options.json = true;
  const auto root = nlohmann::json::parse(*Plan(options));
  EXPECT_EQ(root.at("goal").at("ttftSeconds"), 1);
  EXPECT_EQ(root.at("goal").at("ttftPercentile"), 0.9);
  EXPECT_LE(root.at("plans").at(0).at("firstToken").at("seconds").get<double>(), 1);
  EXPECT_FALSE(root.at("plans").at(0).contains("ruledOut"));
  EXPECT_EQ(root.at("plans").at(1).at("ruledOut"), true);
  EXPECT_GT(root.at("plans").at(1).at("firstToken").at("seconds").get<double>(), 1);
  EXPECT_NE(root.at("plans").at(1).at("lostBy").get<std::string>().find("first token"),
            std::string::npos);
}

// 600 requests in ten minutes, 400 of them in five: a prompt in ten has 10,000 tokens.
TEST(PlanCommand, ATraceSaysTheTraffic) {
  std::string csv = "arrival_s,input_tokens,output_tokens\n";
  for (int i = 0; i < 600; ++i) {
    const double arrival = i < 400 ? 0.75 * i : 300 + 1.5 * (i - 400);
    csv += std::to_string(arrival) + "," + (i % 10 == 0 ? "10000" : "1000") + ",100\n";
  }
  PlanOptions options = Asking("deepseek-v3", "H200");
  options.batch = 512;
  options.trace = Written(csv);
  const Result<std::string> text = Plan(options);
  EXPECT_TRUE(Has(text, "1.333 requests/s of 1900 + 100 tokens (prompt lengths as measured)"))
      << (text.ok() ? *text : text.status().ToString());
  options.json = true;
  const auto measured = nlohmann::json::parse(*Plan(options));
  EXPECT_EQ(measured.at("traffic").at("promptLaw"), "Measured");
  EXPECT_TRUE(Has(text, ", context 1950, ")) << "a prompt and half an answer";
  // At the median most prompts are short, at the 95th percentile five times the mean.
  options.ttft_percentile = 0.5;
  const auto median = nlohmann::json::parse(*Plan(options));
  const auto seconds = [](const nlohmann::json& answer) {
    return answer.at("plans").at(0).at("firstToken").at("seconds").get<double>();
  };
  EXPECT_GT(seconds(measured), 3 * seconds(median));
  options.traffic.requests_per_second = 2;
  EXPECT_EQ(nlohmann::json::parse(*Plan(options)).at("traffic").at("requestsPerSecond"), 2);
}

TEST(PlanCommand, JsonSaysWhatTheTextDoes) {
  PlanOptions options = Asking("deepseek-v2", "H100");
  options.batch = 512;
  options.survivable = options.whole_pods = true;
  options.instances_per_pod = 4;
  options.traffic = {5, 1000, 200};
  options.json = true;
  const Result<std::string> text = Plan(options);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto root = nlohmann::json::parse(*text);
  EXPECT_EQ(root.at("price").at("of"), "survivable and in whole pods");
  EXPECT_GT(root.at("price").at("dearerBy").get<double>(), 0);
  EXPECT_EQ(root.at("traffic").at("requestsPerSecond"), 5);
  EXPECT_EQ(root.at("traffic").at("promptLaw"), "Exponential");
  for (const char* kind : {"plans", "notSeparated"}) {
    for (const auto& plan : root.at(kind)) {
      EXPECT_GT(plan.at("firstToken").at("seconds").get<double>(), 0) << kind;
      EXPECT_EQ(plan.at("firstToken").at("percentile"), 0.95) << kind;
    }
  }
  const auto& theirs = root.at("notSeparated").at(0).at("mixServe");
  EXPECT_GT(theirs.at("communicationMicroseconds").get<double>(), 0);
  EXPECT_GT(theirs.at("meanFirstTokenSeconds").get<double>(), 0);
  options.traffic = {};
  options.survivable = options.whole_pods = false;
  const auto plain = nlohmann::json::parse(*Plan(options));
  for (const char* absent : {"price", "traffic"}) EXPECT_FALSE(plain.contains(absent)) << absent;
  EXPECT_FALSE(plain.at("plans").at(0).contains("firstToken"));
}

TEST(PlanCommand, BadInputSaysWhatToDo) {
  const auto says = [](const PlanOptions& options, const char* part) {
    const Status status = Plan(options).status();
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status.ToString();
  };
  says(PlanOptions{}, "give --model");
  says(Asking("gpt", "H100"), "known: deepseek-v2");
  says(Asking("deepseek-v3", "H900"), "no hardware 'H900'");
  PlanOptions options = Asking("deepseek-v3", "L40S");
  options.max_expert_gpus = 4;
  says(options, "does not fit");
  options = Asking("deepseek-v3", "H200");
  options.tpot_milliseconds = 0.5;
  says(options, "no plan keeps a TPOT of 0.5 ms");
  options = Asking("deepseek-v3", "H200");
  options.traffic.requests_per_second = 3;
  says(options, "give --prompt-tokens and --output-tokens, or --trace");
  options.trace = "/nowhere.csv";
  says(options, "/nowhere.csv");
  options.trace = Written("arrival_s,input_tokens,output_tokens\n");
  says(options, "has no rows");
  options.trace = Written("arrival_s,input_tokens,output_tokens\n1,5,5\n1,6,6\n");
  says(options, "arrive within 0 s, too short to give a rate");
  options.trace = Written("arrival_s,input_tokens,output_tokens\n1,5,5\n60,6,6\n");
  says(options, "arrive within 59 s");
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
