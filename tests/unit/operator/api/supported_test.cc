#include "operator/api/supported.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "common/hardware.h"
#include "controllers/plan/model_shape.h"
#include "operator/api/nearest.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/api/yaml.h"
#include "tests/support/paths.h"

namespace janus::control {
namespace {

// A fixed service with lines added to its spec.
std::string Errors(const std::string& spec_lines, const std::string& attention = "replicas: 2",
                   const std::string& experts = "replicas: 3", Ground ground = Ground::kMachine) {
  const std::string text =
      "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: demo}\nspec:\n"
      "  model: {source: {type: HostPath, hostPath: {path: /m}}}\n"
      "  slo: {tpot: {targetMilliseconds: 60}}\n  roles: {attention: {" +
      attention + "}, experts: {" + experts + "}}\n  " + spec_lines + "\n";
  const Result<Node> root = ParseYaml(text, "s.yaml");
  if (!root.ok()) return root.status().message();
  ParsedService parsed = ParseMoEService(*root);
  FieldErrors errors = std::move(parsed.errors);
  if (errors.empty()) errors = ValidateSchema(parsed.object);
  if (!errors.empty()) return "schema: " + FormatErrors("s.yaml", errors);
  errors = ValidateSupported(parsed.object, ground);
  AddLines(*root, errors);
  return FormatErrors("s.yaml", errors);
}

TEST(Supported, TakesWhatThisVersionDoes) {
  EXPECT_EQ(Errors(""), "");
  EXPECT_EQ(Errors("device: Auto"), "");
  EXPECT_EQ(Errors("exchange: {mode: Direct, transport: SharedMemory, compression: None, gate: "
                   "Experts, sum: Contributions, hostShared: false}"),
            "");
  EXPECT_EQ(Errors("exchange: {mode: TwoPhaseParallel, compression: FP8}"), "");
  EXPECT_EQ(Errors("pipeline: {microBatches: 4}"), "");
  EXPECT_EQ(Errors("security: {tls: Disabled}"), "");
  EXPECT_EQ(Errors("gateway: {replicas: 1, limits: {queuedRequests: 7, openStreams: 9}}"), "");
  EXPECT_EQ(Errors("", "replicas: 1, maxBatchSize: 7, kvCache: {size: 1Gi, prefixCache: Disabled}",
                   "replicas: 1, slotsPerInstance: 9, spareSlots: 0, scheduling: AEBSGreedy, "
                   "placement: {policy: RoundRobin}"),
            "");
  for (const char* one : {"AEBS", "AEBSGreedy", "Random", "Static"}) {
    EXPECT_EQ(Errors("", "replicas: 1", "replicas: 1, scheduling: " + std::string(one)), "");
  }
}

TEST(Supported, AMachineHasGpus) {
  const std::string gpu = "replicas: 1, resources: {limits: {nvidia.com/gpu: 1}}";
  EXPECT_EQ(Errors("", gpu, gpu), "");
  EXPECT_EQ(Errors("device: CUDA", gpu, gpu), "");
}

TEST(Supported, HoldsModeSlo) {
  EXPECT_EQ(Errors("", "", "scaling: {mode: SLO, minReplicas: 2, maxReplicas: 4}"), "");
}

TEST(Supported, SaysItAsTheReferenceDoes) {
  EXPECT_EQ(Errors("", "replicas: 1, resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}"),
            "s.yaml:7: spec.roles.attention.resources: this is not supported by this version "
            "(workers are processes of this machine); use limits of nvidia.com/gpu");
  EXPECT_EQ(Errors("suspend: true"),
            "s.yaml:8: spec.suspend: true is not supported by this version; use false");
  EXPECT_EQ(
      Errors("rollout: {type: Rolling}"),
      "s.yaml:8: spec.rollout.type: Rolling is not supported by this version (a service keeps "
      "its revision); use Auto or Recreate");
}

TEST(Supported, HostMemoryForPrefixesIsForGpusAlone) {
  const std::string refused =
      "s.yaml:7: spec.roles.attention.kvCache.prefixHostMemory: 1Gi is not supported by this "
      "version (except on GPUs; on CPUs all blocks are in host memory); leave the field out";
  const auto says = [](const std::string& memory, const std::string& limits,
                       const std::string& device) {
    return Errors(device, "kvCache: {prefixHostMemory: " + memory + "}, " + limits, limits,
                  Ground::kCluster);
  };
  const std::string gpus = "resources: {limits: {nvidia.com/gpu: 1}}";
  const std::string no_gpus = "resources: {limits: {cpu: 1}}";
  EXPECT_EQ(says("1Gi", gpus, ""), "");
  EXPECT_EQ(says("1Gi", no_gpus, "device: CUDA"), "") << "a claim may be in its template";
  EXPECT_EQ(says("1Gi", no_gpus, ""), refused);
  EXPECT_EQ(says("1Gi", gpus, "device: CPU"), refused);
  EXPECT_EQ(says("1Gi", no_gpus, "device: Timed\n  timed: {hardware: H200, model: dbrx}"), refused);
  EXPECT_EQ(says("0", no_gpus, ""), "");
}

// Each object reaches exactly the table line beside it.
TEST(Supported, ReachesEveryLineOfItsTable) {
  std::set<std::string> reached;
  const auto expect_one = [&](const std::string& errors, const std::string& field) {
    EXPECT_NE(errors.find("spec." + field + ": "), std::string::npos) << field << ": " << errors;
    EXPECT_EQ(errors.find('\n'), std::string::npos) << errors;
    reached.insert(field);
  };
  const std::pair<const char*, const char*> kSpec[] = {
      {"image: x", "image"},
      {"imagePullSecrets: [{name: x}]", "imagePullSecrets"},
      {"exchange: {hostShared: true}", "exchange.hostShared"},
      {"scaling: {standby: 1}", "scaling.standby"},
      {"drain: {timeoutSeconds: 1}", "drain"},
      {"rollout: {type: Rolling}", "rollout.type"},
      {"gateway: {replicas: 2}", "gateway.replicas"},
      {"gateway: {service: {port: 81}}", "gateway.service"},
      {"gateway: {apiKeysSecretRef: {name: a, key: b}}", "gateway.apiKeysSecretRef"},
      {"gateway: {podTemplate: {}}", "gateway.podTemplate"},
      {"gateway: {resources: {limits: {memory: 1Gi}}}", "gateway.resources"},
      {"security: {networkPolicy: true}", "security.networkPolicy"},
      {"suspend: true", "suspend"},
      {"device: Timed\n  timed: {hardware: B300, model: dbrx}", "timed.hardware"},
      {"device: Timed\n  timed: {hardware: H200, model: gpt-5}", "timed.model"},
      {"pools: 4\n  scaling: {maxPools: 3}", "scaling.maxPools"},
  };
  for (const auto& [lines, field] : kSpec) expect_one(Errors(lines), field);
  const std::pair<const char*, const char*> kRole[] = {
      {"scaling: {mode: External, behavior: {scaleUp: {stabilizationWindowSeconds: 1}}}",
       "scaling.behavior"},
      {"replicas: 4, instancesPerPod: 2", "instancesPerPod"},
      {"replicas: 4, tensorParallel: 2", "tensorParallel"},
      {"replicas: 4, resources: {limits: {cpu: 1}}", "resources"},
      {"replicas: 4, nodeSelector: {a: b}", "nodeSelector"},
      {"replicas: 4, tolerations: [{key: a}]", "tolerations"},
      {"replicas: 4, schedulerName: s", "schedulerName"},
      {"replicas: 4, priorityClassName: p", "priorityClassName"},
      {"replicas: 4, podTemplate: {}", "podTemplate"},
  };
  for (const auto& [role, field] : kRole) {
    expect_one(Errors("", role), std::string("roles.attention.") + field);
    expect_one(Errors("", "replicas: 2", role), std::string("roles.experts.") + field);
  }
  expect_one(Errors("pools: 2", "scaling: {mode: External}"), "pools");
  expect_one(Errors("", "replicas: 2, kvCache: {blockSize: 32}"),
             "roles.attention.kvCache.blockSize");
  expect_one(Errors("", "replicas: 2, kvCache: {prefixHostMemory: 1Gi}"),
             "roles.attention.kvCache.prefixHostMemory");
  const std::string none = Errors("", "replicas: 0", "replicas: 0");
  EXPECT_NE(none.find("spec.roles.attention.replicas: 0 is not"), std::string::npos) << none;
  reached.insert({"roles.attention.replicas", "roles.experts.replicas"});
  MoEService service;
  service.spec.model.cache.type = CacheType::kNode;
  service.spec.model.source.type = SourceType::kImage;
  service.spec.model.source.hugging_face =
      HuggingFaceSource{"a/b", "", SecretKeyRef{"hub", "token"}};
  for (const FieldError& error : ValidateSupported(service)) reached.insert(error.path.substr(5));

  size_t lines = 0;
  for (const Limit& limit : Limits()) {
    if (limit.only_on == Ground::kCluster) continue;
    ++lines;
    EXPECT_TRUE(reached.count(std::string(limit.field))) << limit.field << " is never tried";
  }
  EXPECT_EQ(reached.size(), lines);
}

TEST(Supported, AClusterTakesWhatIsOfPodsAndRefusesWhatNobodyDoesYet) {
  const auto errors = [](const std::string& spec, const std::string& role = "replicas: 2") {
    return Errors(spec, role, "replicas: 3", Ground::kCluster);
  };
  for (const char* spec :
       {"image: x", "imagePullSecrets: [{name: x}]", "device: CUDA", "drain: {timeoutSeconds: 1}",
        "rollout: {type: Rolling}", "rollout: {type: SideBySide}",
        "rollout: {type: Recreate, drainSeconds: 5}",
        "gateway: {replicas: 2, service: {port: 81}, podTemplate: {}}",
        "gateway: {apiKeysSecretRef: {name: a, key: b}}", "suspend: true",
        "security: {networkPolicy: true}", "drain: {withoutCapacity: Shrink}",
        "scaling: {standby: 2}"}) {
    EXPECT_EQ(errors(spec), "");
  }
  EXPECT_EQ(errors("",
                   "replicas: 2, resources: {limits: {cpu: 1}}, nodeSelector: {a: b}, "
                   "tolerations: [{key: a}], schedulerName: s, priorityClassName: p, "
                   "podTemplate: {}"),
            "");
  EXPECT_NE(errors("exchange: {mode: TwoPhaseSingle}").find("need instancesPerPod"),
            std::string::npos);
  EXPECT_EQ(errors("exchange: {mode: TwoPhaseSingle}", "replicas: 2, instancesPerPod: 4"), "");
  EXPECT_NE(errors("device: CUDA\n  exchange: {gate: Attention}").find("on CPUs also Attention"),
            std::string::npos);
  EXPECT_EQ(errors("device: CPU\n  exchange: {gate: Attention}"), "");
}

TEST(Supported, AClusterCachesModelsOfAHubAlone) {
  MoEService service;
  const auto refused = [&](SourceType source, CacheType cache) {
    service.spec.model.source.type = source;
    service.spec.model.cache.type = cache;
    const FieldErrors errors = ValidateSupported(service, Ground::kCluster);
    return errors.empty() ? "" : errors[0].message;
  };
  const std::string instead =
      " is not supported by this version; use None, except with a source HuggingFace";
  EXPECT_EQ(refused(SourceType::kHuggingFace, CacheType::kNone), "");
  EXPECT_EQ(refused(SourceType::kHuggingFace, CacheType::kPersistentVolumeClaim), "");
  EXPECT_EQ(refused(SourceType::kHuggingFace, CacheType::kNode), "");
  EXPECT_EQ(refused(SourceType::kImage, CacheType::kNone), "");
  EXPECT_EQ(refused(SourceType::kImage, CacheType::kPersistentVolumeClaim),
            "PersistentVolumeClaim" + instead);
}

TEST(Supported, AMachineTakesModelsOfAHubButNoSecretWithTheToken) {
  MoEService service;
  service.spec.model.source.type = SourceType::kHuggingFace;
  service.spec.model.source.hugging_face = HuggingFaceSource{"a/b", "main", {}};
  EXPECT_TRUE(ValidateSupported(service, Ground::kMachine).empty());
  service.spec.model.source.hugging_face->token_secret_ref = SecretKeyRef{"hub", "token"};
  const FieldErrors refused = ValidateSupported(service, Ground::kMachine);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].path, "spec.model.source.huggingFace.tokenSecretRef");
  EXPECT_NE(refused[0].message.find("set HF_TOKEN"), std::string::npos);
}

// The table is written by hand: it names every preset, and no other.
TEST(Supported, NamesEveryPresetThatATimedDeviceMayStandFor) {
  const auto listed = [](std::string_view field) {
    for (const Limit& limit : Limits()) {
      if (limit.field == field) return std::string(limit.use);
    }
    return std::string();
  };
  std::vector<std::string_view> hardware, models;
  for (const HardwareProfile& one : HardwarePresets()) hardware.push_back(one.name);
  for (const controllers::ModelShape& one : controllers::ModelPresets()) models.push_back(one.name);
  EXPECT_EQ(listed("timed.hardware"), JoinOr(hardware));
  EXPECT_EQ(listed("timed.model"), JoinOr(models));
}

TEST(Supported, IsPrintedInTheDocsAsItIs) {
  std::ifstream in(test::SourceDir() + "/docs/not-supported.md");
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), LimitsAsMarkdown()) << "put the text above into docs/not-supported.md";
}

}  // namespace
}  // namespace janus::control
