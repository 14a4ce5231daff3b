#include "operator/program/options.h"

#include <gtest/gtest.h>

namespace janus::control {
namespace {

Result<ParsedOptions> Parse(std::vector<const char*> words, bool with_images = true) {
  std::vector<const char*> all = {"janus-operator"};
  if (with_images) all.insert(all.end(), {"--worker-image=w:1", "--gateway-image=g:1"});
  all.insert(all.end(), words.begin(), words.end());
  return ParseOperatorOptions(static_cast<int>(all.size()), all.data());
}

std::string ErrorOf(std::vector<const char*> words, bool with_images = true) {
  const Result<ParsedOptions> parsed = Parse(std::move(words), with_images);
  EXPECT_FALSE(parsed.ok());
  return parsed.ok() ? "" : parsed.status().message();
}

TEST(OperatorOptions, TakesWhatItIsTold) {
  const Result<ParsedOptions> parsed =
      Parse({"--watch-namespace=prod", "--workers=7", "--host-path=/a", "--host-path=/b",
             "--leader-election=false", "--pod-name=operator-0", "--worker-cuda-image=w-cuda:1",
             "--timed-devices"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->options.namespaces, std::vector<std::string>{"prod"});
  EXPECT_EQ(parsed->options.workers, 7);
  EXPECT_EQ(parsed->options.host_paths, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_FALSE(parsed->options.leader_election);
  EXPECT_EQ(parsed->options.pod_name, "operator-0");
  EXPECT_EQ(parsed->options.worker_image, "w:1");
  EXPECT_EQ(parsed->options.worker_cuda_image, "w-cuda:1");
  EXPECT_TRUE(parsed->options.timed_devices);
  EXPECT_TRUE(parsed->options.reads_nodes);
  EXPECT_FALSE(Parse({"--nodes=false"})->options.reads_nodes);
}

TEST(OperatorOptions, NamesTheFlagThatIsWrongAndWhatIsWrongWithIt) {
  EXPECT_EQ(ErrorOf({"--workers=0"}),
            "--workers: Value 0 not in range 1 to 256; see janus-operator --help");
  EXPECT_EQ(ErrorOf({"--image-pull-policy=Sometimes"}),
            "--image-pull-policy: Sometimes not in {Always,IfNotPresent,Never}; see janus-operator "
            "--help");
  EXPECT_EQ(ErrorOf({"--worker=1"}),
            "The following argument was not expected: --worker=1; see janus-operator --help");
  EXPECT_EQ(ErrorOf({"--watch-namespace=prod,Dev"}),
            "--watch-namespace: 'Dev' is not a name of a namespace; want lower-case letters, "
            "digits and '-'; see janus-operator --help");
  EXPECT_EQ(ErrorOf({"--log-format=xml"}),
            "--log-format: xml not in {text,json}; see janus-operator --help");
  EXPECT_EQ(ErrorOf({"--host-path=models"}),
            "--host-path: 'models' is not an absolute path; want one that begins with /");
  EXPECT_EQ(ErrorOf({}, false), "--worker-image is required; see janus-operator --help");
}

TEST(OperatorOptions, NamespacesAreAListWithoutRepeats) {
  const Result<ParsedOptions> parsed =
      Parse({"--watch-namespace=prod,dev", "--watch-namespace=dev", "--log-format=json"});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->options.namespaces, (std::vector<std::string>{"dev", "prod"}));
  EXPECT_EQ(parsed->options.log_format, LogFormat::kJson);
  std::string many = "--watch-namespace=n0";
  for (int i = 1; i <= 16; ++i) many += ",n" + std::to_string(i);
  EXPECT_EQ(ErrorOf({many.c_str()}),
            "--watch-namespace: 17 namespaces are more than the 16 that one operator can watch "
            "separately; watch all namespaces, or run a second operator");
}

TEST(OperatorOptions, AContextNeedsAKubeconfig) {
  OperatorOptions options;
  options.context = "prod";
  EXPECT_EQ(ConfigOf(options).status().message(),
            "--context needs --kubeconfig, or KUBECONFIG in the environment");
}

TEST(OperatorOptions, VersionAndHelpAreText) {
  EXPECT_EQ(Parse({"--version"}, false)->text.rfind("janus-operator ", 0), 0u);
  EXPECT_NE(Parse({"--help"}, false)->text.find("--watch-namespace"), std::string::npos);
}

}  // namespace
}  // namespace janus::control
