#include "cli/service_file.h"

#include <gtest/gtest.h>

#include "cli/calibrate.h"
#include "operator/api/device.h"

namespace janus::cli {
namespace {

TEST(ComposeServiceText, IsAValidServiceWithTheCountsAsked) {
  const std::string text = ComposeServiceText({"demo", "", "/models/my model", 2, 3});
  const Result<control::MoEService> service = ParseServiceText(text, "service.yaml");
  ASSERT_TRUE(service.ok()) << service.status().message();
  EXPECT_EQ(service->metadata.name, "demo");
  EXPECT_EQ(service->spec.model.source.host_path->path, "/models/my model");
  EXPECT_EQ(service->spec.roles.attention.replicas, 2);
  EXPECT_EQ(service->spec.roles.experts.replicas, 3);
}

TEST(ComposeServiceText, SurvivesAnyFolderName) {
  for (const char* dir : {"/a: b", "/x # y", "/\"q\"", "/123", "/off", "/a\tb"}) {
    const auto service =
        ParseServiceText(ComposeServiceText({"d", ModelNameFor(dir), dir}), "service.yaml");
    ASSERT_TRUE(service.ok()) << dir << ": " << service.status().message();
    EXPECT_EQ(service->spec.model.source.host_path->path, dir);
    EXPECT_EQ(service->model_name(), ModelNameFor(dir));
  }
}

TEST(ComposeServiceText, NamesTheTimedDevice) {
  const TimedDevice device = {"H200", "deepseek-v3", 64, 8};
  const auto composed =
      ParseServiceText(ComposeServiceText({"d", "", "/m", 1, 8, device}), "service.yaml");
  ASSERT_TRUE(composed.ok()) << composed.status().message();
  EXPECT_EQ(composed->spec.device, control::Device::kTimed);
  EXPECT_EQ(composed->spec.timed->device(), device);
}

TEST(ComposeServiceText, SaysHowTheExchangeCompresses) {
  ServiceAsked asked{"d", "", "/m", 1, 8};
  asked.compression = "FP8";
  const auto composed = ParseServiceText(ComposeServiceText(asked), "service.yaml");
  ASSERT_TRUE(composed.ok()) << composed.status().message();
  EXPECT_EQ(composed->spec.exchange.compression, Compression::kFp8);
}

TEST(ComposeServiceText, NamesTheTransport) {
  ServiceAsked asked{"d", "", "/m", 1, 8};
  asked.transport = "RDMA";
  const auto composed = ParseServiceText(ComposeServiceText(asked), "service.yaml");
  ASSERT_TRUE(composed.ok()) << composed.status().message();
  EXPECT_EQ(composed->spec.exchange.transport, control::Transport::kRdma);
}

TEST(ComposeServiceText, SaysHowContributionsAreAdded) {
  ServiceAsked asked{"d", "", "/m", 1, 8};
  asked.sum = "FixedPoint";
  asked.sum_bits = 24;
  asked.sum_exponents = {-17, 3};
  const auto composed = ParseServiceText(ComposeServiceText(asked), "service.yaml");
  ASSERT_TRUE(composed.ok()) << composed.status().message();
  EXPECT_EQ(composed->spec.exchange.sum, control::SumRule::kFixedPoint);
  EXPECT_EQ(composed->spec.exchange.sum_bits, 24);
  EXPECT_EQ(composed->spec.exchange.sum_exponents, (std::vector<int32_t>{-17, 3}));
}

TEST(ReadExponents, TakesWhatACalibrationPrints) {
  EXPECT_EQ(*ReadExponents("# janusctl calibrate: 2 prompts, 9 positions\nexchange:\n"
                           "  sum: FixedPoint\n  sumBits: 32\n  sumExponents: [-17, 3]\n"),
            (std::vector<int>{-17, 3}));
  EXPECT_EQ(ReadExponents("exchange: {}\n").status(),
            Internal("the calibration printed no exponents"));
}

TEST(WithTimedDevice, TakesThePlaceOfTheObjectsOwnDevice) {
  const TimedDevice device = {"H200", "deepseek-v3", 64, 8};
  const std::string plain = ComposeServiceText({"d", "", "/m", 2, 3}) + "  device: CPU\n";
  const Result<std::string> text = WithTimedDevice(plain, "s.yaml", device);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto service = ParseServiceText(*text, "s.yaml");
  ASSERT_TRUE(service.ok()) << service.status().message();
  EXPECT_EQ(service->spec.device, control::Device::kTimed);
  EXPECT_EQ(service->spec.timed->device(), device);
  EXPECT_EQ(service->spec.roles.experts.replicas, 3);
  EXPECT_FALSE(WithTimedDevice("a: [", "s.yaml", device).ok());
}

TEST(WithModelFolder, TakesThePlaceOfTheObjectsOwnSource) {
  const std::string hub =
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: d}\nspec:\n"
      "  model: {name: m, source: {type: HuggingFace, huggingFace: {repo: a/b}}}\n"
      "  roles: {attention: {replicas: 1}, experts: {replicas: 3}}\n";
  const Result<std::string> text = WithModelFolder(hub, "s.yaml", "/cache/x");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto service = ParseServiceText(*text, "s.yaml");
  ASSERT_TRUE(service.ok()) << service.status().message();
  EXPECT_EQ(service->spec.model.source.type, control::SourceType::kHostPath);
  EXPECT_EQ(service->spec.model.source.host_path->path, "/cache/x");
  EXPECT_FALSE(service->spec.model.source.hugging_face);
  EXPECT_EQ(service->model_name(), "m");
  EXPECT_EQ(service->spec.roles.experts.replicas, 3);
  EXPECT_FALSE(WithModelFolder("a: [", "s.yaml", "/cache/x").ok());
}

TEST(ParseServiceText, RefusesATimedDeviceOfNamesThatAreNotKnown) {
  const auto why = [](const TimedDevice& device) {
    return ParseServiceText(ComposeServiceText({"d", "", "/m", 1, 8, device}), "s.yaml")
        .status()
        .message();
  };
  EXPECT_EQ(why({"B300", "deepseek-v3"}),
            "s.yaml:13: spec.timed.hardware: B300 is not supported by this version; use L20, H800, "
            "A800, H20, L40S, A100, H100 or H200");
  EXPECT_EQ(why({"H200", "gpt-5"}),
            "s.yaml:14: spec.timed.model: gpt-5 is not supported by this version; use deepseek-v2, "
            "deepseek-v3, mixtral-8x22b, dbrx or scaled-moe");
}

TEST(ServiceNameFor, IsAlwaysAValidName) {
  EXPECT_EQ(ServiceNameFor("/models/demo"), "demo");
  EXPECT_EQ(ServiceNameFor("/models/demo/"), "demo");
  EXPECT_EQ(ServiceNameFor("/models/Mixtral-8x7B-v0.1"), "mixtral-8x7b-v0-1");
  EXPECT_EQ(ServiceNameFor("/models/8x7B"), "x7b");
  EXPECT_EQ(ServiceNameFor("/"), "model");
  EXPECT_EQ(ServiceNameFor("/___"), "model");
  EXPECT_EQ(ServiceNameFor("/" + std::string(60, 'a')), std::string(40, 'a'));
  for (const char* dir : {"/models/a__b--", "/A B", "/\xc3\xa9t\xc3\xa9"}) {
    const auto service = ParseServiceText(ComposeServiceText({ServiceNameFor(dir), "", "/m"}), "s");
    EXPECT_TRUE(service.ok()) << dir << ": " << service.status().message();
  }
}

TEST(ModelNameFor, IsTheFolderAsItIsWritten) {
  EXPECT_EQ(ModelNameFor("/models/Mixtral-8x7B-v0.1"), "Mixtral-8x7B-v0.1");
  EXPECT_EQ(ModelNameFor("/models/a b/"), "a b");
  EXPECT_EQ(ModelNameFor("/"), "");
}

TEST(ParseServiceText, ListsWhatIsNotSupportedOnlyForAnObjectThatKeepsTheRules) {
  const std::string good = ComposeServiceText({"demo", "", "/m"});
  const std::string suspended = good + "  suspend: true\n";
  EXPECT_EQ(ParseServiceText(suspended, "s.yaml").status().message().substr(0, 41),
            "s.yaml:16: spec.suspend: true is not supp");
  EXPECT_EQ(
      ParseServiceText(suspended + "  pipeline: {microBatches: 9}\n", "s.yaml").status().message(),
      "s.yaml:17: spec.pipeline.microBatches: is 9; want 0..4");
}

TEST(ComposeServiceText, AsksForAGpuForEachInstance) {
  ServiceAsked asked{"demo", "", "/m"};
  asked.gpus = 1;
  const auto shared = ParseServiceText(ComposeServiceText(asked), "s.yaml");
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  EXPECT_EQ(control::DeviceOf(*shared), control::Device::kCuda);
  const control::RolesSpec& roles = shared->spec.roles;
  EXPECT_EQ(roles.attention.resources.limits.at("nvidia.com/gpu").value, 1);
  EXPECT_EQ(roles.experts.resources.limits.at("nvidia.com/gpu").value, 1);
  EXPECT_EQ(roles.attention.kv_cache.memory_percent, 40) << "a second instance is to fit";
  asked.gpus = 2;
  const auto apart = ParseServiceText(ComposeServiceText(asked), "s.yaml");
  ASSERT_TRUE(apart.ok()) << apart.status().ToString();
  EXPECT_EQ(apart->spec.roles.attention.kv_cache.memory_percent, std::nullopt);
  EXPECT_EQ(apart->spec.scaling.max_gpus, std::nullopt);
  asked.tpot_milliseconds = 50;
  asked.attention = asked.experts = std::nullopt;
  for (const auto& [gpus, most] : {std::pair{1, 2}, {8, 8}}) {
    asked.gpus = gpus;
    EXPECT_EQ(ParseServiceText(ComposeServiceText(asked), "s.yaml")->spec.scaling.max_gpus, most);
  }
}

TEST(CheckServiceName, BlamesTheFlag) {
  EXPECT_TRUE(CheckServiceName("demo-2").ok());
  EXPECT_EQ(CheckServiceName("Demo"),
            InvalidArgument("--name: is 'Demo'; want small letters, digits "
                            "and '-', beginning with a letter and not ending with '-'"));
  EXPECT_EQ(CheckServiceName(std::string(41, 'a')).code(), StatusCode::kInvalidArgument);
}

TEST(ReadServiceFile, NamesTheFile) {
  EXPECT_EQ(ReadServiceFile("/nonexistent/s.yaml").status().message(),
            "/nonexistent/s.yaml: No such file or directory");
  EXPECT_EQ(ReadServiceFile("/tmp").status().message(), "/tmp: is a folder; want a file");
}

}  // namespace
}  // namespace janus::cli
