#include "tests/support/api/good_objects.h"

#include "common/check.h"
#include "operator/api/yaml.h"

namespace janus::test {
namespace {

using control::Node;

Node Parse(const std::string& text) {
  Result<Node> node = control::ParseYaml(text, "good.yaml");
  JANUS_CHECK(node.ok(), node.status().ToString());
  return *std::move(node);
}

RuleBreaker Breaker(const std::string& rule, const std::string& path, const std::string& text) {
  return {rule, {rule + " broken", Parse(text), path, false, {}}};
}

constexpr const char* kHead =
    "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\nmetadata: {name: demo}\nspec:\n";

std::vector<Node> MoEServices() {
  const std::string head = kHead;
  const std::string rules =
      "{stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 2, "
      "periodSeconds: 60}]}";
  const std::string scaling =
      "{mode: SLO, minReplicas: 1, maxReplicas: 8, behavior: {scaleUp: " + rules +
      ", scaleDown: " + rules + "}}";
  const std::string role =
      "instancesPerPod: 2, tensorParallel: 2, hardwareProfile: h200, resources: {requests: {cpu: "
      "500m}, limits: {memory: 4Gi}}, nodeSelector: {pool: gpu}, tolerations: [{key: gpu, "
      "operator: "
      "Equal, value: a, effect: NoSchedule, tolerationSeconds: 30}], schedulerName: mine, "
      "priorityClassName: high, podTemplate: {spec: {anything: [1, 2]}}";
  return {
      Parse(
          head + R"(  model:
    source: {type: PersistentVolumeClaim, persistentVolumeClaim: {claimName: models, path: mixtral}}
    name: mixtral
    dtype: BFloat16
    names: [org/mixtral, gpt-4]
    maxModelLen: 8192
    cache: {type: Node, node: {path: /var/cache}}
  slo: {tpot: {targetMilliseconds: 50, percentile: P99}, ttft: {targetMilliseconds: 900, percentile: P50}}
  image: registry/janus:1
  imagePullSecrets: [{name: pull}]
  device: CUDA
  roles:
    attention: {scaling: )" +
          scaling + ", " + role +
          R"(, maxBatchSize: 64, kvCache: {blockSize: 32, size: 2Gi, dtype: FP8, prefixCache: Exact, prefixHostMemory: 1Gi}}
    experts: {scaling: )" +
          scaling + ", " + role +
          R"(, slotsPerInstance: 12, spareSlots: 1, scheduling: Static, placement: {policy: RoundRobin, survivable: true, rebalanceIntervalSeconds: 600, windowSeconds: 300}}
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
    resources: {requests: {cpu: 200m}, limits: {memory: 1Gi}}
    podTemplate: {metadata: {labels: {a: b}}}
  security: {tls: Disabled, networkPolicy: true}
  paused: true
  suspend: true
)"),
      Parse(head + R"(  model:
    source: {type: HuggingFace, huggingFace: {repo: a/b, revision: main, tokenSecretRef: {name: hub, key: token}}}
    cache: {type: PersistentVolumeClaim, persistentVolumeClaim: {claimName: cache, path: models}}
  roles:
    attention: {replicas: 2, kvCache: {memoryPercent: 80}}
    experts: {replicas: 3}
)"),
      Parse(head + R"(  model: {source: {type: Image, image: {path: /models/demo}}}
  slo: {tpot: {targetMilliseconds: 50}}
)"),
      Parse(head + R"(  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}
  slo: {tpot: {targetMilliseconds: 50}}
)"),
      Parse(head + R"(  model: {source: {type: HostPath, hostPath: {path: /models/demo}}}
  slo: {tpot: {targetMilliseconds: 50}}
  device: Timed
  timed: {hardware: H200, model: deepseek-v3, scale: 64, timeScale: 8}
)"),
  };
}

std::vector<RuleBreaker> BreakMoEServices() {
  const std::string head = kHead;
  const std::string host = "  model: {source: {type: HostPath, hostPath: {path: /m}}}\n";
  const std::string slo = "  slo: {tpot: {targetMilliseconds: 50}}\n";
  const auto source = [&](const std::string& text) {
    return head + "  model: {source: " + text + "}\n" + slo;
  };
  const auto cache = [&](const std::string& text) {
    return head + "  model: {source: {type: HostPath, hostPath: {path: /m}}, cache: " + text +
           "}\n" + slo;
  };
  const auto role = [&](const std::string& name, const std::string& text) {
    return head + host + slo + "  roles: {" + name + ": " + text + "}\n";
  };
  const std::string source_path = "spec.model.source";
  const std::string cache_path = "spec.model.cache";
  std::vector<RuleBreaker> out;
  out.push_back(Breaker("#0", "metadata.name",
                        "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
                        "metadata: {name: 3-demos}\nspec:\n" +
                            host + slo));
  const auto add = [&](const std::string& rule, const std::string& path, const std::string& text) {
    out.push_back(Breaker(rule, path, text));
  };
  add("spec#0", "spec.slo.tpot", head + host);
  add("spec#0", "spec.slo.tpot", head + host + "  roles: {attention: {replicas: 1}}\n");
  add("spec#1", "spec.ratio.min",
      head + host + "  roles: {attention: {replicas: 2}, experts: {replicas: 3}}\n" +
          "  ratio: {min: {experts: 2, attention: 1}}\n");
  add("spec#2", "spec.ratio.max",
      head + host + slo +
          "  roles: {attention: {scaling: {maxReplicas: 2}}, experts: {replicas: 3}}\n" +
          "  ratio: {max: {experts: 1, attention: 1}}\n");
  add("spec#3", "spec.timed", head + host + slo + "  device: Timed\n");
  const std::string timed = "  timed: {hardware: H200, model: deepseek-v3}\n";
  add("spec#3", "spec.timed", head + host + slo + timed);
  add("spec#3", "spec.timed", head + host + slo + "  device: CPU\n" + timed);
  for (const char* exchange : {"{sum: FixedPoint}", "{sum: FixedPoint, sumExponents: []}"}) {
    add("spec.exchange#0", "spec.exchange.sumExponents",
        head + host + slo + "  exchange: " + exchange + "\n");
  }
  for (const char* exchange :
       {"{sumExponents: [1]}", "{sum: Contributions, sumExponents: [1, 2]}"}) {
    add("spec.exchange#1", "spec.exchange.sumExponents",
        head + host + slo + "  exchange: " + exchange + "\n");
  }
  add("spec.ratio#0", "spec.ratio.min",
      head + host + slo +
          "  ratio: {min: {experts: 3, attention: 1}, max: {experts: 2, attention: 1}}\n");
  add("spec.model.source#0", source_path + ".huggingFace", source("{type: HuggingFace}"));
  add("spec.model.source#1", source_path + ".persistentVolumeClaim",
      source("{type: PersistentVolumeClaim}"));
  add("spec.model.source#2", source_path + ".image",
      source("{type: HostPath, hostPath: {path: /m}, image: {path: /m}}"));
  add("spec.model.source#3", source_path + ".hostPath",
      source("{type: Image, hostPath: {path: /m}, image: {path: /m}}"));
  add("spec.model.cache#0", cache_path + ".persistentVolumeClaim",
      cache("{type: PersistentVolumeClaim}"));
  add("spec.model.cache#1", cache_path + ".node", cache("{type: None, node: {path: /c}}"));
  add("spec.roles#0", "spec.roles",
      head + host + "  roles: {attention: {replicas: 0}, experts: {replicas: 3}}\n");
  for (const std::string name : {"attention", "experts"}) {
    const std::string path = "spec.roles." + name;
    add(path + "#0", path, role(name, "{replicas: 2, scaling: {mode: External}}"));
    add(path + ".scaling#0", path + ".scaling.minReplicas",
        role(name, "{scaling: {minReplicas: 5, maxReplicas: 3}}"));
  }
  const std::string kv = "spec.roles.attention.kvCache";
  add(kv + "#0", kv, role("attention", "{kvCache: {size: 1Gi, memoryPercent: 50}}"));
  add(kv + ".size#0", kv + ".size", role("attention", "{kvCache: {size: 63Ki}}"));
  add(kv + ".size#0", kv + ".size", role("attention", "{kvCache: {size: 65535}}"));
  const std::string size = "spec.gateway.limits.requestSize";
  for (const std::string value : {"1023", "2Gi", "1073741825", "100m"}) {
    add(size + "#0", size,
        head + host + slo + "  gateway: {limits: {requestSize: " + value + "}}\n");
  }
  return out;
}

std::string Head(const std::string& kind) {
  return "apiVersion: serving.janus.dev/v1alpha1\nkind: " + kind +
         "\nmetadata: {name: demo}\nspec:\n";
}

std::string Topology(int epoch) {
  return "{epoch: " + std::to_string(epoch) +
         ", configHash: c, instances: [{role: experts, podUID: u, index: 1, incarnation: 2, node: "
         "pod, "
         "domain: d, address: \"10.0.0.1:9000\", slots: 4, sequences: {maxBatchSize: 8, "
         "maxModelLen: 4096, "
         "kvBytes: 1073741824, swapBytes: 134217728, prefixHostBytes: 1}}], mode: Direct, gate: "
         "Experts, sum: "
         "Contributions, microBatches: 2, maxRowsPerRound: 512, placement: eJw=, sha256: " +
         std::string(64, 'a') +
         ", sequences: {maxBatchSize: 9, maxModelLen: 2048, kvBytes: 4096, swapBytes: 0, "
         "prefixHostBytes: 2}, model: abc0123456}";
}

std::string Record(int last_epoch, const std::string& rest) {
  return Head("MoETopology") + "  fence: 3\n  lastEpoch: " + std::to_string(last_epoch) + "\n" +
         rest;
}

std::vector<RuleBreaker> BreakTopologies() {
  const std::string at = "spec.committed.epoch";
  const std::string proposed = "spec.proposed.epoch";
  return {Breaker("spec#0", at, Record(4, "  committed: " + Topology(5) + "\n")),
          Breaker("spec#1", proposed, Record(4, "  proposed: " + Topology(5) + "\n")),
          Breaker("spec#2", proposed,
                  Record(9, "  committed: " + Topology(5) + "\n  proposed: " + Topology(5) + "\n")),
          Breaker("spec#3", "spec.endedEpoch", Record(4, "  endedEpoch: 5\n"))};
}

const std::string& DataSheet() {
  static const std::string text =
      Head("HardwareProfile") +
      "  accelerator: NVIDIA-H200\n  memory: 141G\n  memoryBandwidth: 4.8T\n"
      "  peak: {bf16: 989T, fp8: 1979T}\n  intraNodeBandwidth: 400G\n"
      "  interNodeBandwidth: 50G\n  instancesPerNode: 8\n  rdmaResource: rdma/hca\n  price: "
      "7.39k\n";
  return text;
}

std::vector<RuleBreaker> BreakDataSheets() {
  std::vector<RuleBreaker> out;
  for (const auto& [path, value] : {std::pair{"memory", "141G"},
                                    {"memoryBandwidth", "4.8T"},
                                    {"peak.bf16", "989T"},
                                    {"peak.fp8", "1979T"},
                                    {"intraNodeBandwidth", "400G"},
                                    {"interNodeBandwidth", "50G"},
                                    {"price", "7.39k"}}) {
    for (const char* zero : {"0", "0.0k", "\"0\""}) {
      std::string text = DataSheet();
      text.replace(text.find(value), std::string(value).size(), zero);
      const std::string field = std::string("spec.") + path;
      out.push_back(Breaker(field + "#0", field, text));
    }
  }
  return out;
}

}  // namespace

std::vector<Node> GoodObjects(std::string_view plural) {
  if (plural == "moeservices") return MoEServices();
  if (plural == "moerolescalers") {
    return {Parse(Head("MoERoleScaler") + "  service: chat\n  role: experts\n  replicas: 2\n")};
  }
  if (plural == "moetopologies") {
    return {Parse(Record(6, "  endedEpoch: 2\n  endedAt: \"2026-01-02T03:04:05Z\"\n  committed: " +
                                Topology(5) + "\n  proposed: " + Topology(6) + "\n"))};
  }
  JANUS_CHECK(plural == "hardwareprofiles", std::string(plural));
  return {Parse(DataSheet())};
}

std::vector<RuleBreaker> BreakRules(std::string_view plural) {
  if (plural == "moeservices") return BreakMoEServices();
  if (plural == "moetopologies") return BreakTopologies();
  if (plural == "hardwareprofiles") return BreakDataSheets();
  return {};
}

std::vector<ChangeBreaker> BreakChanges(std::string_view plural) {
  std::vector<ChangeBreaker> out;
  const auto add = [&](const std::string& rule, const std::string& path, const std::string& before,
                       const std::string& after) {
    out.push_back(
        {rule, Parse(before), {rule + " broken by a change", Parse(after), path, false, {}}});
  };
  if (plural == "moeservices") {
    const auto source = [](const std::string& text) {
      return kHead + ("  model: {source: " + text + "}\n") +
             "  slo: {tpot: {targetMilliseconds: 50}}\n";
    };
    const std::string type = "spec.model.source.type";
    add(type + "#0", type, source("{type: HostPath, hostPath: {path: /m}}"),
        source("{type: Image, image: {path: /m}}"));
    const std::string repo = "spec.model.source.huggingFace.repo";
    add(repo + "#0", repo, source("{type: HuggingFace, huggingFace: {repo: a/b}}"),
        source("{type: HuggingFace, huggingFace: {repo: a/c}}"));
  } else if (plural == "moerolescalers") {
    const auto scaler = [](const std::string& service, const std::string& role) {
      return Head("MoERoleScaler") + "  service: " + service + "\n  role: " + role +
             "\n  replicas: 2\n";
    };
    const std::string before = scaler("chat", "experts");
    add("spec.service#0", "spec.service", before, scaler("other", "experts"));
    add("spec.role#0", "spec.role", before, scaler("chat", "attention"));
  } else if (plural == "moetopologies") {
    const std::string none;
    const std::string ended = "  endedEpoch: 2\n";
    add("spec.fence#0", "spec.fence", Record(6, none),
        Head("MoETopology") + "  fence: 2\n  lastEpoch: 6\n");
    add("spec.lastEpoch#0", "spec.lastEpoch", Record(6, none), Record(5, none));
    add("spec.endedEpoch#0", "spec.endedEpoch", Record(6, ended), Record(6, "  endedEpoch: 1\n"));
    add("spec#4", "spec.endedEpoch", Record(6, ended), Record(6, none));
    add("spec#5", "spec.committed.epoch", Record(6, "  committed: " + Topology(5) + "\n"),
        Record(6, "  committed: " + Topology(4) + "\n"));
  }
  return out;
}

}  // namespace janus::test
