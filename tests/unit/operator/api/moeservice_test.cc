#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "operator/api/defaults.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/api/yaml.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

// The two examples of the API page.
constexpr std::string_view kMinimal = R"(apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {name: chat}
spec:
  model: {source: {type: HuggingFace, huggingFace: {repo: deepseek-ai/DeepSeek-V2-Lite}}}
  slo: {tpot: {targetMilliseconds: 60}}
)";
constexpr std::string_view kFixed = R"(apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {name: demo}
spec:
  model: {source: {type: HostPath, hostPath: {path: /models/demo}}, dtype: Float32}
  device: CPU
  roles:
    attention: {replicas: 2}
    experts: {replicas: 3, slotsPerInstance: 6}
)";

ParsedService Parse(std::string_view text) {
  const Result<Node> root = ParseYaml(text, "service.yaml");
  EXPECT_TRUE(root.ok()) << root.status().ToString();
  return root.ok() ? ParseMoEService(*root) : ParsedService{};
}

// All errors of the text, schema rules included, as janusctl prints them.
std::string Errors(const std::string& text) {
  const Result<Node> root = ParseYaml(text, "service.yaml");
  if (!root.ok()) return root.status().message();
  FieldErrors errors = ValidateRead(*root, ParseMoEService(*root));
  AddLines(*root, errors);
  return FormatErrors("service.yaml", errors);
}

std::string With(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) out.replace(at, from.size(), to);
  return out;
}

TEST(MoEService, TakesBothExamplesOfTheReference) {
  EXPECT_EQ(Errors(std::string(kMinimal)), "");
  EXPECT_EQ(Errors(std::string(kFixed)), "");
}

TEST(MoEService, ReadsWhatIsWrittenAndDefaultsTheRest) {
  const MoEService service = Parse(kFixed).object;
  EXPECT_EQ(service.metadata.name, "demo");
  EXPECT_EQ(service.model_name(), "demo");
  EXPECT_EQ(service.spec.model.source.type, SourceType::kHostPath);
  EXPECT_EQ(service.spec.model.source.host_path->path, "/models/demo");
  EXPECT_EQ(service.spec.model.dtype, Dtype::kFloat32);
  EXPECT_EQ(service.spec.device, Device::kCpu);
  EXPECT_EQ(service.spec.roles.attention.replicas, 2);
  EXPECT_TRUE(service.spec.roles.attention.is_static());
  EXPECT_EQ(service.spec.roles.experts.slots_per_instance, 6);
  EXPECT_EQ(service.spec.roles.experts.spare_slots, 2);
  EXPECT_EQ(service.spec.roles.attention.max_batch_size, 256);
  EXPECT_EQ(service.spec.gateway.limits.request_size.value, 4 << 20);
  EXPECT_TRUE(Parse(kMinimal).object.spec.roles.experts.is_slo());
}

TEST(MoEService, ReadsEveryFieldOfTheSchema) {
  const std::string text = R"(apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata:
  name: all
  namespace: prod
  labels: {team: a}
  annotations: {serving.janus.dev/restartedAt: "2026-01-01"}
  uid: u-1
  resourceVersion: "7"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: []
spec:
  model:
    source:
      type: PersistentVolumeClaim
      persistentVolumeClaim: {claimName: models, path: mixtral}
    name: mixtral
    names: [org/mixtral, gpt-4]
    dtype: BFloat16
    maxModelLen: 8192
    cache: {type: Node, node: {path: /var/cache}}
  slo:
    tpot: {targetMilliseconds: 50, percentile: P99}
    ttft: {targetMilliseconds: 900}
  image: registry/janus:1
  imagePullSecrets: [{name: pull}]
  device: CUDA
  roles:
    attention:
      scaling:
        mode: SLO
        minReplicas: 1
        maxReplicas: 8
        behavior:
          scaleUp: {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 2, periodSeconds: 60}]}
          scaleDown: {selectPolicy: Disabled}
      instancesPerPod: 2
      tensorParallel: 2
      hardwareProfile: h200
      resources: {requests: {cpu: 500m, memory: 4Gi}, limits: {nvidia.com/gpu: 1}}
      nodeSelector: {pool: gpu}
      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: 30}]
      schedulerName: mine
      priorityClassName: high
      podTemplate: {spec: {anything: [1, 2]}}
      maxBatchSize: 64
      kvCache: {blockSize: 32, size: 2Gi, dtype: FP8, prefixCache: Exact, prefixHostMemory: 64Gi}
    experts:
      scaling: {mode: External, minReplicas: 2, maxReplicas: 16}
      slotsPerInstance: 12
      spareSlots: 1
      placement: {policy: ActivationAware, survivable: true, rebalanceIntervalSeconds: 600, windowSeconds: 300}
      scheduling: AEBSGreedy
  exchange: {mode: TwoPhaseParallel, transport: RDMA, compression: FP8, gate: Attention, sum: FixedPoint, sumBits: 24, sumExponents: [-17, 3], hostShared: true}
  pipeline: {microBatches: 3}
  ratio: {min: {experts: 1, attention: 2}, max: {experts: 4, attention: 1}}
  scaling: {intervalSeconds: 30, predictor: EWMA, maxGPUs: 64, maxPools: 4, advisory: true, pendingTimeoutSeconds: 600, standby: 1}
  pools: 2
  drain: {timeoutSeconds: 60, withoutCapacity: Shrink}
  rollout: {type: SideBySide, drainSeconds: 30}
  gateway:
    replicas: 3
    service: {type: LoadBalancer, port: 8080}
    apiKeysSecretRef: {name: keys, key: api}
    limits: {queuedRequests: 10, requestSize: 1Mi, openStreams: 20}
    podTemplate: {}
  security: {tls: Disabled, networkPolicy: true}
  paused: true
  suspend: true
status: {whatever: 1}
)";
  EXPECT_EQ(Errors(text), "");
  const MoEServiceSpec spec = Parse(text).object.spec;
  EXPECT_EQ(spec.model.names, (std::vector<std::string>{"org/mixtral", "gpt-4"}));
  EXPECT_EQ(spec.model.max_model_len, 8192);
  EXPECT_EQ(spec.model.cache.node->path, "/var/cache");
  EXPECT_EQ(spec.slo.tpot->percentile, Percentile::kP99);
  EXPECT_EQ(spec.roles.attention.resources.requests.at("cpu").milli, 500);
  EXPECT_EQ(spec.roles.attention.resources.limits.at("nvidia.com/gpu").value, 1);
  EXPECT_EQ(spec.roles.attention.tolerations[0].effect, TaintEffect::kNoSchedule);
  EXPECT_EQ(spec.roles.attention.scaling->behavior->scale_up->policies[0].value, 2);
  EXPECT_EQ(spec.roles.attention.pod_template->Find("spec")->Find("anything")->items.size(), 2u);
  EXPECT_EQ(spec.roles.attention.kv_cache.size->value, 2LL << 30);
  EXPECT_EQ(spec.roles.attention.kv_cache.prefix_host_memory->value, 64LL << 30);
  EXPECT_EQ(spec.roles.attention.kv_cache.dtype, KvDtype::kFp8);
  EXPECT_EQ(spec.roles.experts.scheduling, Scheduling::kAebsGreedy);
  EXPECT_EQ(spec.exchange.mode, ExchangeMode::kTwoPhaseParallel);
  EXPECT_EQ(spec.exchange.sum_bits, 24);
  EXPECT_EQ(spec.exchange.sum_exponents, (std::vector<int32_t>{-17, 3}));
  EXPECT_EQ(spec.scaling.max_gpus, 64);
  EXPECT_EQ(spec.scaling.max_pools, 4);
  EXPECT_EQ(spec.pools, 2);
  EXPECT_EQ(spec.gateway.service.type, ServiceType::kLoadBalancer);
  EXPECT_TRUE(spec.suspend);
}

struct Case {
  const char* name;
  std::string_view base;
  const char* from;
  const char* to;
  const char* error;  // first line of the output
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class MoEServiceRefuses : public testing::TestWithParam<Case> {};

TEST_P(MoEServiceRefuses, ByPath) {
  const std::string errors = Errors(With(GetParam().base, GetParam().from, GetParam().to));
  EXPECT_EQ(errors.substr(0, errors.find('\n')), GetParam().error);
}

// As in the API server, rules over several fields wait until all fields are readable.
TEST(MoEService, TellsAtOnceWhatIsMissingAndWhatIsOutOfBounds) {
  const std::string text = R"(apiVersion: serving.janus.dev/v1alpha1
kind: MoEService
metadata: {name: Chat}
spec:
  device: GPU
  model:
    source: {type: HostPath, huggingFace: {}}
    maxModelLen: 0
  slo: {tpot: {targetMilliseconds: soon}, ttft: {targetMilliseconds: 0}}
  roles: {experts: {replicas: 1, scaling: {maxReplicas: 0}}}
  imagePullSecrets: 7
)";
  const std::string kAll =
      "service.yaml:3: metadata.name: is 'Chat'; want small letters, digits and '-', beginning "
      "with a letter and not ending with '-'\n"
      "service.yaml:5: spec.device: is 'GPU'; use Auto, CPU, CUDA or Timed\n"
      "service.yaml:7: spec.model.source.huggingFace.repo: is required: owner/name on the hub\n"
      "service.yaml:8: spec.model.maxModelLen: is 0; want 1..16777216\n"
      "service.yaml:9: spec.slo.tpot.targetMilliseconds: must be an integer, is a string "
      "('soon')\n"
      "service.yaml:9: spec.slo.ttft.targetMilliseconds: is 0; want 1..3600000\n"
      "service.yaml:10: spec.roles.experts.scaling.maxReplicas: is 0; want 1..1024\n"
      "service.yaml:11: spec.imagePullSecrets: must be a list, is an integer (7)";
  EXPECT_EQ(Errors(text), kAll);
}

INSTANTIATE_TEST_SUITE_P(
    Parsing, MoEServiceRefuses,
    testing::Values(
        Case{"AMisspeltField", kFixed, "replicas: 2", "replica: 2",
             "service.yaml:8: spec.roles.attention.replica: is not a field here; did you mean "
             "'replicas'?"},
        Case{"AFieldFarFromAny", kFixed, "device: CPU", "zebra: CPU",
             "service.yaml:6: spec.zebra: is not a field here; the fields are model, slo, image, "
             "imagePullSecrets, device, timed, pools, roles, exchange, pipeline, ratio, scaling, "
             "drain, "
             "rollout, "
             "gateway, security, paused, suspend"},
        Case{"TextForAnInteger", kFixed, "replicas: 2", "replicas: two",
             "service.yaml:8: spec.roles.attention.replicas: must be an integer, is a string "
             "('two')"},
        Case{
            "AFractionForAnInteger", kFixed, "replicas: 2", "replicas: 2.5",
            "service.yaml:8: spec.roles.attention.replicas: must be an integer, is a number with a "
            "fraction (2.5)"},
        Case{"AnIntegerBeyond32Bits", kFixed, "replicas: 2", "replicas: 4294967298",
             "service.yaml:8: spec.roles.attention.replicas: does not fit 32 bits: 4294967298"},
        Case{"AnIntegerForText", kFixed, "name: demo", "name: 12",
             "service.yaml:3: metadata.name: must be a string, is an integer (12); write \"12\" "
             "in quotes"},
        Case{"AValueOutsideAnEnumeration", kFixed, "device: CPU", "device: GPU",
             "service.yaml:6: spec.device: is 'GPU'; use Auto, CPU, CUDA or Timed"},
        Case{"ABooleanForAnEnumeration", kFixed, "device: CPU", "security: {tls: false}",
             "service.yaml:6: spec.security.tls: is 'false'; use Auto or Disabled"},
        Case{"AWordThatIsABooleanForAnEnumeration", kFixed, "device: CPU", "security: {tls: Off}",
             "service.yaml:6: spec.security.tls: is 'Off', which YAML reads as false; use Auto or "
             "Disabled"},
        Case{"AWordThatIsABooleanForText", kFixed, "name: demo", "name: no",
             "service.yaml:3: metadata.name: must be a string, is a boolean (no, which YAML reads "
             "as false); write \"no\" in quotes"},
        Case{"AWordThatIsABooleanForAnInteger", kFixed, "replicas: 2", "replicas: y",
             "service.yaml:8: spec.roles.attention.replicas: must be an integer, is a boolean (y, "
             "which YAML reads as true)"},
        Case{"AnEmptyField", kMinimal, "slo: {tpot: {targetMilliseconds: 60}}", "slo:",
             "service.yaml:6: spec.slo.tpot: is required for a role in mode SLO; set a target, or "
             "both "
             "roles' replicas"},
        Case{"AMissingModel", kMinimal,
             "model: {source: {type: HuggingFace, huggingFace: {repo: "
             "deepseek-ai/DeepSeek-V2-Lite}}}",
             "paused: true", "service.yaml:4: spec.model: is required: the model to serve"},
        Case{"AMissingName", kMinimal, "{name: chat}", "{}",
             "service.yaml:3: metadata.name: is required: the object's name"},
        Case{"AnotherVersion", kMinimal, "v1alpha1", "v1",
             "service.yaml:1: apiVersion: is 'serving.janus.dev/v1'; want "
             "serving.janus.dev/v1alpha1"},
        Case{"AnotherKind", kMinimal, "kind: MoEService", "kind: Pod",
             "service.yaml:2: kind: is 'Pod'; want MoEService"},
        Case{"AListForAnObject", kFixed, "{replicas: 2}", "[1]",
             "service.yaml:8: spec.roles.attention: must be an object, is a list"},
        Case{"ABadQuantity", kFixed, "{replicas: 2}", "{replicas: 2, kvCache: {size: 4GB}}",
             "service.yaml:8: spec.roles.attention.kvCache.size: '4GB' is not a quantity; write a "
             "number with a unit, as 512Mi, 4Gi or 2G"},
        Case{"ANameInAList", kFixed, "device: CPU", "imagePullSecrets: [{name: a}, {nam: b}]",
             "service.yaml:6: spec.imagePullSecrets[1].name: is required: the object's name"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Schema, MoEServiceRefuses,
    testing::Values(
        Case{"ReplicasAndScaling", kFixed, "{replicas: 2}",
             "{replicas: 2, scaling: {mode: External}}",
             "service.yaml:8: spec.roles.attention: has replicas and scaling; give one: replicas "
             "for "
             "a fixed count"},
        Case{
            "MinAboveMax", kMinimal,
            "slo:", "roles: {experts: {scaling: {minReplicas: 5, maxReplicas: 3}}}\n  slo:",
            "service.yaml:6: spec.roles.experts.scaling.minReplicas: is 5, more than maxReplicas = "
            "3"},
        Case{"NoTargetInModeSlo", kMinimal, "slo: {tpot: {targetMilliseconds: 60}}", "paused: true",
             "service.yaml:4: spec.slo.tpot: is required for a role in mode SLO; set a target, or "
             "both roles' replicas"},
        Case{"NoTargetWithOneFixedRole", kFixed, "attention: {replicas: 2}", "attention: {}",
             "service.yaml:4: spec.slo.tpot: is required for a role in mode SLO; set a target, or "
             "both roles' replicas"},
        Case{"OneRoleZero", kFixed, "{replicas: 2}", "{replicas: 0}",
             "service.yaml:7: spec.roles: one role has 0 replicas and the other has more; set "
             "both to 0 or neither"},
        Case{"NegativeReplicas", kFixed, "{replicas: 2}", "{replicas: -1}",
             "service.yaml:8: spec.roles.attention.replicas: is -1; want 0..256"},
        Case{"UnionWithoutItsMember", kFixed, "type: HostPath", "type: Image",
             "service.yaml:5: spec.model.source.image: is required with type Image"},
        Case{"UnionWithTwoMembers", kFixed, "hostPath: {path: /models/demo}",
             "hostPath: {path: /models/demo}, image: {path: /m}",
             "service.yaml:5: spec.model.source.image: is given, but type is HostPath; give only "
             "the member of that type"},
        Case{"RelativePath", kFixed, "/models/demo", "models/demo",
             "service.yaml:5: spec.model.source.hostPath.path: is 'models/demo'; want an absolute "
             "path, as /models/demo"},
        Case{
            "BadRepository", kMinimal, "deepseek-ai/DeepSeek-V2-Lite", "DeepSeek",
            "service.yaml:5: spec.model.source.huggingFace.repo: is 'DeepSeek'; want owner/name as "
            "on the hub"},
        Case{"BadName", kMinimal, "name: chat", "name: Chat_1",
             "service.yaml:3: metadata.name: is 'Chat_1'; want small letters, digits and '-', "
             "beginning with a letter and not ending with '-'"},
        Case{"ThreeInstancesPerPod", kFixed, "{replicas: 2}", "{replicas: 2, instancesPerPod: 3}",
             "service.yaml:8: spec.roles.attention.instancesPerPod: is 3; want one of 1, 2, 4, 8"},
        Case{"FiveMicroBatches", kFixed, "device: CPU", "pipeline: {microBatches: 5}",
             "service.yaml:6: spec.pipeline.microBatches: is 5; want 0..4"},
        Case{"KvSizeAndPercent", kFixed, "{replicas: 2}",
             "{replicas: 2, kvCache: {size: 1Gi, memoryPercent: 50}}",
             "service.yaml:8: spec.roles.attention.kvCache: has size and memoryPercent; give one"},
        Case{"NoSlots", kFixed, "slotsPerInstance: 6", "slotsPerInstance: 0",
             "service.yaml:9: spec.roles.experts.slotsPerInstance: is 0; want 1..4096"},
        Case{"RatioMinAboveMax", kFixed, "device: CPU",
             "ratio: {min: {experts: 3, attention: 1}, max: {experts: 2, attention: 1}}",
             "service.yaml:6: spec.ratio.min: is 3:1, more than max = 2:1"},
        Case{"RatioOutOfReachBelow", kFixed, "device: CPU",
             "ratio: {min: {experts: 2, attention: 1}}",
             "service.yaml:6: spec.ratio.min: is 2:1, which 3 experts at most for 2 attention "
             "instances at least cannot reach"},
        Case{"RatioOutOfReachAbove", kFixed, "device: CPU",
             "ratio: {max: {experts: 1, attention: 1}}",
             "service.yaml:6: spec.ratio.max: is 1:1, which 3 experts at least for 2 attention "
             "instances at most cannot reach"},
        Case{"TargetOfZero", kMinimal, "targetMilliseconds: 60", "targetMilliseconds: 0",
             "service.yaml:6: spec.slo.tpot.targetMilliseconds: is 0; want 1..600000"},
        Case{"PortOfZero", kFixed, "device: CPU", "gateway: {service: {port: 0}}",
             "service.yaml:6: spec.gateway.service.port: is 0; want 1..65535"},
        Case{"RequestsOfAGigabyteAndMore", kFixed, "device: CPU",
             "gateway: {limits: {requestSize: 2Gi}}",
             "service.yaml:6: spec.gateway.limits.requestSize: is 2147483648; want "
             "1024..1073741824"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(MoEService, ReportsEveryErrorInTheOrderOfTheDocument) {
  const std::string errors =
      Errors(With(With(kFixed, "device: CPU", "devise: CPU"), "replicas: 3", "replicas: x"));
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  EXPECT_LT(errors.find("spec.devise"), errors.find("spec.roles.experts.replicas")) << errors;
}

// Cuts, doubles and swaps pieces of a good object; validation must end with any input.
TEST(MoEService, JudgesAnyText) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  constexpr std::string_view kPieces = "{}[]:,-&*!|>'\"%#? \n\t0~";
  int accepted = 0;
  for (int run = 0; run < 4000; ++run) {
    std::string text(run % 2 ? kFixed : kMinimal);
    for (size_t change = 1 + draw(4); change > 0; --change) {
      const size_t at = draw(text.size());
      const size_t length = std::min(draw(12), text.size() - at);
      switch (draw(4)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, text.substr(at, length));
          break;
        case 2:
          text[at] = kPieces[draw(kPieces.size())];
          break;
        default:
          text[at] = static_cast<char>(draw(256));
          break;
      }
      if (text.empty()) text = " ";
    }
    accepted += Errors(text).empty() ? 1 : 0;
  }
  EXPECT_LT(accepted, 4000);
}

TEST(MoEService, KeepsTypeAndRepositoryForLife) {
  const MoEService before = Parse(kMinimal).object;
  EXPECT_TRUE(ValidateUpdate(before, before).empty());
  MoEService after = before;
  after.spec.model.source.hugging_face->revision = "abc";
  EXPECT_TRUE(ValidateUpdate(before, after).empty());
  after.spec.model.source.hugging_face->repo = "a/b";
  ASSERT_EQ(ValidateUpdate(before, after).size(), 1u);
  EXPECT_EQ(ValidateUpdate(before, after)[0].path, "spec.model.source.huggingFace.repo");
  EXPECT_EQ(ValidateUpdate(before, Parse(kFixed).object)[0].path, "spec.model.source.type");
}

}  // namespace
}  // namespace janus::control
