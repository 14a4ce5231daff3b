#include "cli/validate/judge.h"

#include <gtest/gtest.h>

#include "cli/service_file.h"

namespace janus::cli {
namespace {

using control::Ground;

const std::vector<Ground> kBoth = {Ground::kMachine, Ground::kCluster};

// The text printed for an input, and whether all of it is good.
std::string Described(const std::string& text, const std::vector<Ground>& grounds = kBoth) {
  const Result<std::vector<Verdict>> verdicts = Judge(text, "s.yaml", grounds);
  if (!verdicts.ok()) return verdicts.status().message();
  std::string out;
  bool is_good = true;
  for (const Verdict& one : *verdicts) {
    out += Describe(one, "s.yaml");
    is_good = is_good && one.is_good();
  }
  return out + (is_good ? "good" : "bad");
}

const std::string kService = ComposeServiceText({"demo", "", "/m"});
const std::string kScaler =
    "apiVersion: serving.janus.dev/v1alpha1\n"
    "kind: MoERoleScaler\n"
    "metadata: {name: demo-experts}\n"
    "spec: {service: demo, role: experts, replicas: 2}\n";

TEST(Judge, TellsTheSchemaFromWhatThisVersionCanDo) {
  EXPECT_EQ(Described(kService),
            "s.yaml:1: MoEService demo\n"
            "  schema:         valid\n"
            "  on one machine: this version serves it\n"
            "  on a cluster:   this version serves it\n"
            "good");
  EXPECT_EQ(Described(kService + "  suspend: true\n", {Ground::kMachine}),
            "s.yaml:1: MoEService demo\n"
            "  schema:         valid\n"
            "  on one machine: this version cannot serve it\n"
            "    s.yaml:16: spec.suspend: true is not supported by this version; use false\n"
            "bad");
  EXPECT_EQ(Described(kService + "  device: GPU\n"),
            "s.yaml:1: MoEService demo\n"
            "  schema:         refused\n"
            "    s.yaml:16: spec.device: is 'GPU'; use Auto, CPU, CUDA or Timed\n"
            "bad");
}

TEST(Judge, WhatOfAPodTemplateNoPodWouldHaveIsRefusedAsOnTheCluster) {
  const std::string text =
      "apiVersion: serving.janus.dev/v1alpha1\n"
      "kind: MoEService\n"
      "metadata: {name: demo}\n"
      "spec:\n"
      "  model: {source: {type: Image, image: {path: /m}}}\n"
      "  roles:\n"
      "    attention: {replicas: 1}\n"
      "    experts:\n"
      "      replicas: 2\n"
      "      podTemplate: {spec: {containers: [{name: worker, image: mine}, {name: side}]}}\n";
  EXPECT_EQ(Described(text, {Ground::kCluster}),
            "s.yaml:1: MoEService demo\n"
            "  schema:         valid\n"
            "  on a cluster:   this version cannot serve it\n"
            "    s.yaml:10: spec.roles.experts.podTemplate.spec.containers[0].image: is set by the "
            "operator and would be ignored: remove it; workers have spec.image, gateways the image "
            "that the chart names\n"
            "bad");
}

TEST(Judge, OnAClusterOneComputesOnGpusThatPodsAreGiven) {
  const std::string text =
      "apiVersion: serving.janus.dev/v1alpha1\n"
      "kind: MoEService\n"
      "metadata: {name: demo}\n"
      "spec:\n"
      "  model: {source: {type: Image, image: {path: /m}}}\n"
      "  device: CUDA\n"
      "  roles:\n"
      "    attention: {replicas: 1, resources: {limits: {nvidia.com/gpu: 1}}}\n"
      "    experts: {replicas: 2, resources: {limits: {memory: 64Gi}}}\n";
  EXPECT_EQ(
      Described(text, {Ground::kCluster}),
      "s.yaml:1: MoEService demo\n"
      "  schema:         valid\n"
      "  on a cluster:   this version cannot serve it\n"
      "    s.yaml:9: spec.roles.experts.resources.limits: has no GPU, and spec.device is CUDA; "
      "add nvidia.com/gpu: 1, or a slice of one as nvidia.com/mig-1g.10gb, or set "
      "spec.device: CPU\n"
      "bad");
  const std::string with = text.substr(0, text.rfind("memory")) + "nvidia.com/gpu: 1}}}\n";
  EXPECT_TRUE(Described(with, {Ground::kCluster}).ends_with("\ngood")) << with;
}

TEST(Judge, WhatOneGroundServesIsGoodThereAndBadOnTheOther) {
  const std::string text =
      "apiVersion: serving.janus.dev/v1alpha1\n"
      "kind: MoEService\n"
      "metadata: {name: demo}\n"
      "spec:\n"
      "  model: {source: {type: Image, image: {path: /models/demo}}}\n"
      "  slo: {tpot: {targetMilliseconds: 50}}\n";
  EXPECT_EQ(Described(text),
            "s.yaml:1: MoEService demo\n"
            "  schema:         valid\n"
            "  on one machine: this version cannot serve it\n"
            "    s.yaml:5: spec.model.source.type: Image is not supported by this version; use "
            "HuggingFace or HostPath\n"
            "  on a cluster:   this version serves it\n"
            "good");
  EXPECT_TRUE(Described(text, {Ground::kMachine}).ends_with("\nbad"));
  EXPECT_TRUE(Described(text, {Ground::kCluster}).ends_with("\ngood"));
}

TEST(Judge, JudgesEachDocumentOfEveryKindAtItsOwnLines) {
  EXPECT_EQ(Described("# ours\n" + kScaler +
                      "--- # and a wrong one\n"
                      "apiVersion: serving.janus.dev/v1alpha1\n"
                      "kind: MoERoleScaler\n"
                      "metadata: {name: demo-attention}\n"
                      "spec:\n"
                      "  service: demo\n"
                      "  role: attention\n"
                      "  replicas: -1\n"
                      "---\n"
                      "---\n"
                      "apiVersion: v1\n"
                      "kind: Namespace\n"
                      "metadata: {name: prod}\n"),
            "s.yaml:2: MoERoleScaler demo-experts\n"
            "  schema:         valid\n"
            "s.yaml:7: MoERoleScaler demo-attention\n"
            "  schema:         refused\n"
            "    s.yaml:13: spec.replicas: is -1; want 0..1024\n"
            "s.yaml:16: Namespace prod\n"
            "  not an object of this API, not checked\n"
            "bad");
}

TEST(Judge, ADocumentThatCannotBeReadHidesNoOther) {
  EXPECT_EQ(Described(kScaler + "---\na: 1\na: 2\n---\n" + kScaler),
            "s.yaml:1: MoERoleScaler demo-experts\n"
            "  schema:         valid\n"
            "s.yaml:6: unreadable document\n"
            "    s.yaml:7: field 'a' is given twice\n"
            "s.yaml:9: MoERoleScaler demo-experts\n"
            "  schema:         valid\n"
            "bad");
}

TEST(Judge, MetadataKeepsTheServersRules) {
  const auto with = [](const std::string& more) {
    std::string text = kService;
    text.replace(text.find("  name: demo\n"), 13, "  name: demo\n  " + more + "\n");
    return Described(text);
  };
  ASSERT_NE(kService.find("\n  name: demo\n"), std::string::npos) << kService;
  EXPECT_TRUE(
      with("labels: {a.b/c: D-1_2, d: ''}\n  annotations: {A.b/c: any thing}\n  finalizers: "
           "[a.b/c]")
          .ends_with("\ngood"));
  for (const char* bad : {"labels: {'a b': c}", "labels: {a: 'c d'}", "labels: {-a: c}",
                          "annotations: {'a/b/c': d}", "finalizers: ['a b']"}) {
    const std::string said = with(bad);
    EXPECT_TRUE(said.find("metadata.") != std::string::npos && said.ends_with("\nbad")) << said;
    EXPECT_EQ(said.find("serves it"), std::string::npos) << said;
  }
  const std::string number = with("labels: {a: 1}");
  const std::string told = "metadata.labels.a: must be a string";
  ASSERT_NE(number.find(told), std::string::npos) << number;
  EXPECT_EQ(number.find(told), number.rfind(told)) << "said once: " << number;
}

TEST(Judge, ItemsOfAListCountForThemselves) {
  EXPECT_EQ(Described("apiVersion: v1\n"
                      "kind: List\n"
                      "items:\n"
                      "- apiVersion: serving.janus.dev/v1alpha1\n"
                      "  kind: MoERoleScaler\n"
                      "  metadata: {name: a}\n"
                      "  spec: {service: demo, role: experts, replicas: 2}\n"
                      "- kind: MoERoleScaler\n"
                      "  metadata: {name: b}\n"
                      "  spec: {service: demo, role: expert, replicas: 2}\n"),
            "s.yaml:4: MoERoleScaler a\n"
            "  schema:         valid\n"
            "s.yaml:8: MoERoleScaler b\n"
            "  schema:         refused\n"
            "    s.yaml:8: apiVersion: is required: serving.janus.dev/v1alpha1\n"
            "    s.yaml:10: spec.role: is 'expert'; use attention or experts\n"
            "bad");
}

TEST(Judge, AKindOfOursThatThereIsNotIsRefusedWithTheNearest) {
  EXPECT_EQ(Described("{apiVersion: serving.janus.dev/v1alpha1, kind: MoeServce}"),
            "s.yaml:1: MoeServce\n"
            "  schema:         refused\n"
            "    s.yaml:1: kind: is 'MoeServce'; did you mean MoEService?\n"
            "bad");
  EXPECT_EQ(Described("{apiVersion: serving.janus.dev/v1, kind: Queue}"),
            "s.yaml:1: Queue\n"
            "  schema:         refused\n"
            "    s.yaml:1: kind: is 'Queue'; use MoEService, MoERoleScaler, MoETopology or "
            "HardwareProfile\n"
            "bad");
}

TEST(Judge, WhatIsNoYamlOrNoObjectIsNamedWithItsLine) {
  const std::string broken = Described(kScaler + "---\na: {\n");
  EXPECT_NE(broken.find("\n    s.yaml:7: not valid YAML"), std::string::npos) << broken;
  EXPECT_EQ(Described("# nothing\n---\n"),
            "s.yaml: has no object; want one or more objects in YAML");
  EXPECT_EQ(Described(""), "s.yaml: has no object; want one or more objects in YAML");
}

}  // namespace
}  // namespace janus::cli
