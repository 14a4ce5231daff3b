#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/simulate/command.h"
#include "cli/simulate/report.h"

namespace janus::cli {
namespace {

class SimulateCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("simulate_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    std::string trace = "arrival_s,input_tokens,output_tokens\n";
    for (int i = 0; i < 400; ++i) {
      trace += std::to_string(i * 2) + "," + std::to_string(100 + i % 900) + "," +
               std::to_string(20 + i % 200) + "\n";
    }
    options_.demand.trace = Write("trace.csv", trace);
    options_.setting.model = "deepseek-v2";
    options_.demand.scale = 40;
    options_.demand.max_weight = 4;
    options_.policies = {"whole", "disagg"};
    options_.scaling.interval_seconds = 60;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string MessageOf(const SimulateOptions& options) {
    return Simulate(options, {}).status().message();
  }

  std::filesystem::path folder_;
  SimulateOptions options_;
};

TEST_F(SimulateCommand, PrintsAPolicyALineAndWritesAPageThatNeedsNothingElse) {
  options_.html = (folder_ / "report.html").string();
  const auto text = Simulate(options_, {});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->find("\ndisagg "), std::string::npos) << *text;
  EXPECT_NE(text->find("\nwhole "), std::string::npos) << *text;
  std::ifstream file(options_.html);
  const std::string html((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_NE(html.find("<polyline"), std::string::npos);
  for (const char* plot : {"Load", "GPUs, mean", "TPOT, median", "TPOT, 99th", "TTFT, 99th",
                           "Attainment of", "Decisions", "<table>"}) {
    EXPECT_NE(html.find(plot), std::string::npos) << plot;
  }
  for (const char* outside : {"http:", "https:", "src=", "<script", "@import", "url("}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST_F(SimulateCommand, JsonHoldsEveryWindowAndDecision) {
  options_.json = true;
  const auto text = Simulate(options_, {});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto root = nlohmann::json::parse(*text);
  ASSERT_EQ(root["policies"].size(), 2u);
  for (const auto& policy : root["policies"]) {
    EXPECT_EQ(policy["requests"], 400 * 40);
    int64_t arrived = 0;
    for (const auto& window : policy["windows"]) arrived += window["arrived"].get<int64_t>();
    EXPECT_EQ(arrived, 400 * 40);
    EXPECT_FALSE(policy["decisions"].empty());
    EXPECT_GT(policy["attainment"].get<double>(), 0.5);
  }
}

// The table, the page and the JSON say that the target cannot be reached, and what can.
TEST_F(SimulateCommand, AnImpossibleTargetIsToldEverywhere) {
  options_.scaling.tpot.seconds = 0.001;
  options_.policies = {"ours"};
  options_.html = (folder_ / "report.html").string();
  const auto text = Simulate(options_, {});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->find("\nPOLICY    HELD BECAUSE "), std::string::npos) << *text;
  EXPECT_NE(text->find("\nours      ImpossibleSLO "), std::string::npos) << *text;
  EXPECT_NE(text->find(" ms at best ("), std::string::npos) << *text;
  std::ifstream file(options_.html);
  const std::string html((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(html.find("<tr><td>ImpossibleSLO<td>"), std::string::npos);
  EXPECT_NE(html.find(", ImpossibleSLO</tr>"), std::string::npos) << "in the first table";
  EXPECT_NE(html.find(" times held</summary>"), std::string::npos);
  options_.json = true;
  const auto root = nlohmann::json::parse(*Simulate(options_, {}));
  const auto& hold = root["policies"][0]["holds"].at(0);
  EXPECT_EQ(hold["reason"], "ImpossibleSLO");
  EXPECT_GT(hold["times"].get<int>(), 1);
  EXPECT_EQ(hold["firstSeconds"], 0);
  EXPECT_NE(hold["why"].get<std::string>().find("TPOT "), std::string::npos);
}

TEST_F(SimulateCommand, SaysTheSameTwice) {
  EXPECT_EQ(*Simulate(options_, {}), *Simulate(options_, {}));
}

TEST_F(SimulateCommand, ReadsRates) {
  options_.demand.trace.clear();
  options_.demand.rates =
      Write("rates.csv",
            "window_start_s,rate_rps,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,"
            "out_p90,out_p99\n0,20,300,200,600,1000,100,90,200,300\n"
            "600,10,300,200,600,1000,100,90,200,300\n");
  options_.demand.scale = 1;
  options_.json = true;
  const auto text = Simulate(options_, {});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto root = nlohmann::json::parse(*text);
  // 20 per second for 600 s, then 10: from a random process, within five standard deviations.
  std::map<bool, int64_t> arrived;
  for (const auto& window : root["policies"][0]["windows"]) {
    arrived[window["startSeconds"].get<double>() < 600] += window["arrived"].get<int64_t>();
  }
  EXPECT_NEAR(static_cast<double>(arrived[true]), 12'000, 5 * std::sqrt(12'000));
  EXPECT_NEAR(static_cast<double>(arrived[false]), 6'000, 5 * std::sqrt(6'000));
}

// A trace that begins on its third day: no policy decides or pays for the time before.
TEST_F(SimulateCommand, ATraceThatBeginsLateIsReplayedFromItsFirstWindow) {
  const auto late = [&](double from) {
    std::string trace = "arrival_s,input_tokens,output_tokens\n";
    for (int i = 0; i < 400; ++i) {
      trace += std::to_string(from + i * 2) + "," + std::to_string(100 + i % 900) + "," +
               std::to_string(20 + i % 200) + "\n";
    }
    return Write("late.csv", trace);
  };
  options_.json = true;
  options_.policies = {"ours"};
  options_.demand.trace = late(0);
  const auto begun = nlohmann::json::parse(*Simulate(options_, {}));
  EXPECT_EQ(begun["workload"].get<std::string>().find("of the file"), std::string::npos);
  options_.demand.trace = late(3 * 86'400);
  const auto third = nlohmann::json::parse(*Simulate(options_, {}));
  EXPECT_NE(third["workload"].get<std::string>().find(" from hour 72.00 of the file"),
            std::string::npos)
      << third["workload"];
  EXPECT_NEAR(third["policies"][0]["gpuHours"].get<double>(),
              begun["policies"][0]["gpuHours"].get<double>(), 1e-6);
  EXPECT_EQ(third["policies"][0]["decisions"].size(), begun["policies"][0]["decisions"].size());
  // If the trace begins in the middle of a window, the window's start counts. Hours that the user
  // gives override it.
  options_.demand.trace = late(3 * 86'400 + 300);
  EXPECT_NE(nlohmann::json::parse(*Simulate(options_, {}))["workload"].get<std::string>().find(
                " from hour 72.00 of the file"),
            std::string::npos);
  options_.demand.from_hours = 72.1;
  EXPECT_NE(nlohmann::json::parse(*Simulate(options_, {}))["workload"].get<std::string>().find(
                " from hour 72.10 of the file"),
            std::string::npos);
}

// A scale that would need all memory is refused before any work.
TEST_F(SimulateCommand, AScaleOfTooManyGroupsIsRefused) {
  for (const double scale : {1e9, 1e30}) {
    options_.demand.scale = scale;
    EXPECT_NE(MessageOf(options_).find(" groups of at most 4 requests, and the limit is 5e+07 "
                                       "groups; lower --scale or raise --max-weight"),
              std::string::npos)
        << MessageOf(options_);
  }
  for (const double scale : {0., -1., std::nan(""), HUGE_VAL}) {
    options_.demand.scale = scale;
    EXPECT_NE(MessageOf(options_).find("want a --scale above 0"), std::string::npos) << scale;
  }
  options_.demand.trace.clear();
  options_.demand.rates =
      Write("rates.csv",
            "window_start_s,rate_rps,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,"
            "out_p90,out_p99\n0,20,300,200,600,1000,100,90,200,300\n");
  options_.demand.scale = 1e9;
  EXPECT_NE(MessageOf(options_).find("makes about 3e+12 groups"), std::string::npos)
      << MessageOf(options_);
}

TEST_F(SimulateCommand, OursBeginsWithTheCountsThatAreGiven) {
  options_.policies = {"ours"};
  options_.json = true;
  for (const char* counts : {"1A7E", "9A8E"}) {
    options_.first_counts = counts;
    const auto text = Simulate(options_, {});
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    const auto root = nlohmann::json::parse(*text);
    EXPECT_EQ(root["policies"][0]["decisions"][0]["to"], counts) << *text;
  }
}

// What the policy predicts for timed devices is what they take: a service that grew because its own
// measurements seemed wrong went back and forth, and missed the target with many GPUs.
TEST_F(SimulateCommand, OnTimedDevicesARequestStandsForMany) {
  std::string trace = "arrival_s,input_tokens,output_tokens\n";
  for (int i = 0; i < 5000; ++i) {
    trace += std::to_string(i * 0.4) + "," + std::to_string(10 + i % 30) + "," +
             std::to_string(80 + i % 80) + "\n";
  }
  options_.demand = {};
  options_.demand.trace = Write("even.csv", trace);
  options_.scaling.tpot.seconds = 0.05;
  options_.scaling.interval_seconds = 15;
  options_.start_seconds = 1;
  options_.policies = {"ours", "static"};
  options_.json = true;
  const auto run = [&](double rows_for_one) {
    options_.rows_for_one = rows_for_one;
    const auto text = Simulate(options_, {});
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    return nlohmann::json::parse(text.ok() ? *text : "{}");
  };
  const nlohmann::json one = run(1), many = run(16);
  const auto hours = [](const nlohmann::json& report, size_t policy) {
    return report.at("policies").at(policy).at("gpuHours").get<double>();
  };
  EXPECT_GT(hours(many, 0), 1.2 * hours(one, 0));
  EXPECT_LT(hours(many, 0), 1.2 * hours(many, 1)) << many["policies"][0]["decisions"];
  EXPECT_GE(many["policies"][0]["attainment"].get<double>(), 0.95);
  EXPECT_EQ(many["policies"][0]["requests"], 5000);
  options_.policies = {};
  const nlohmann::json all = run(16);
  std::vector<std::string> names;
  for (const auto& one : all.at("policies")) names.push_back(one.at("policy"));
  EXPECT_EQ(names, (std::vector<std::string>{"ours", "disagg", "static", "oracle"}));
  options_.policies = {"ours", "hpa"};
  EXPECT_EQ(MessageOf(options_),
            "simulate: on timed devices only attention and experts apart are simulated, and 'hpa' "
            "runs copies of the whole model; leave it out, or multiply the requests instead "
            "(--scale)");
}

TEST_F(SimulateCommand, SaysWhatIsWrongAndWhatToDo) {
  SimulateOptions broken = options_;
  broken.setting.model.clear();
  EXPECT_NE(MessageOf(broken).find("give --model"), std::string::npos);
  broken = options_;
  broken.demand.trace.clear();
  EXPECT_NE(MessageOf(broken).find("with --trace or --rates"), std::string::npos);
  broken = options_;
  broken.policies = {"whole", "magic"};
  EXPECT_NE(MessageOf(broken).find("no policy 'magic'; known: ours, disagg"), std::string::npos);
  broken = options_;
  for (const char* counts : {"2A", "2x8", "0A1E", "1A1E and more"}) {
    broken.first_counts = counts;
    EXPECT_NE(MessageOf(broken).find("such as 2A8E"), std::string::npos) << MessageOf(broken);
  }
  broken.first_counts = "1A6E";
  EXPECT_NE(MessageOf(broken).find("the first counts must be 1A7E to"), std::string::npos)
      << MessageOf(broken);
  broken = options_;
  broken.demand.trace =
      Write("broken.csv", "arrival_s,input_tokens,output_tokens\n1,2,3\n0,nan,3\n");
  EXPECT_NE(MessageOf(broken).find("broken.csv: line 3: '0,nan,3' is not an arrival"),
            std::string::npos)
      << MessageOf(broken);
  broken = options_;
  broken.demand.trace = (folder_ / "none.csv").string();
  EXPECT_NE(MessageOf(broken).find("none.csv"), std::string::npos);
  broken = options_;
  broken.demand.from_hours = 5;
  EXPECT_NE(MessageOf(broken).find("no request in the selected hours"), std::string::npos);
  broken = options_;
  broken.html = (folder_ / "no" / "report.html").string();
  const auto run = Simulate(broken, [](const std::string&) { FAIL() << "after the work"; });
  EXPECT_NE(run.status().message().find("cannot write this file"), std::string::npos);
}

TEST_F(SimulateCommand, PromptsComputedElsewhereCostNothingHere) {
  options_.policies = {"whole"};
  options_.json = true;
  const auto here = nlohmann::json::parse(*Simulate(options_, {}));
  options_.demand.prefill_elsewhere = true;
  const auto elsewhere = nlohmann::json::parse(*Simulate(options_, {}));
  EXPECT_LT(elsewhere["policies"][0]["tpotSeconds"]["p50"],
            here["policies"][0]["tpotSeconds"]["p50"]);
  EXPECT_EQ(elsewhere["policies"][0]["requests"], here["policies"][0]["requests"]);
}

TEST_F(SimulateCommand, SaysWhichTermsAreNotWhatIsBelieved) {
  options_.truth.experts = 1.2;
  const auto text = Simulate(options_, {});
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->find("the true times are 1 (attention), 1.2 (experts) and 1 (exchange) of those"),
            std::string::npos)
      << *text;
}

TEST_F(SimulateCommand, ReadsAModelFromItsConfigJson) {
  const auto folder = folder_ / "v2";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({
    "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
    "attention_bias": false, "first_k_dense_replace": 1, "hidden_act": "silu",
    "hidden_size": 5120, "intermediate_size": 12288, "kv_lora_rank": 512,
    "max_position_embeddings": 163840, "moe_intermediate_size": 1536, "moe_layer_freq": 1,
    "n_group": 8, "n_routed_experts": 160, "n_shared_experts": 2, "norm_topk_prob": false,
    "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hidden_layers": 60,
    "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "routed_scaling_factor": 16.0, "scoring_func": "softmax", "tie_word_embeddings": false,
    "topk_group": 3, "topk_method": "group_limited_greedy", "torch_dtype": "bfloat16",
    "v_head_dim": 128, "vocab_size": 102400})";
  SettingOptions preset;
  preset.model = "deepseek-v2";
  SettingOptions file;
  file.model = folder.string();
  const auto a = ReadSetting(preset);
  const auto b = ReadSetting(file);
  ASSERT_TRUE(b.ok()) << b.status().ToString();
  EXPECT_EQ(a->model.AttentionBytes(), b->model.AttentionBytes());
  EXPECT_EQ(a->model.KvBytesPerToken(1), b->model.KvBytesPerToken(1));
  EXPECT_EQ(a->model.AttentionWeights(), b->model.AttentionWeights());
  EXPECT_EQ(a->model.layers, b->model.layers);
  EXPECT_EQ(a->model.IsLatent(), b->model.IsLatent());
}

TEST(RenderHtml, EscapesWhatAReasonSays) {
  SimulationReport report;
  report.title = "a < b";
  controllers::SimulationRun run;
  run.policy = "p";
  run.decisions.push_back({0, "1A<b>", "because \"x\" & <script>", 3});
  report.runs.push_back(run);
  const std::string html = RenderHtml(report);
  EXPECT_NE(html.find("a &lt; b"), std::string::npos);
  EXPECT_NE(html.find("&quot;x&quot; &amp; &lt;script&gt;"), std::string::npos);
  EXPECT_EQ(html.find("<script>"), std::string::npos);
}

}  // namespace
}  // namespace janus::cli
