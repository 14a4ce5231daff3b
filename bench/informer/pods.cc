#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include "bench/informer/commands.h"
#include "common/check.h"
#include "common/read_file.h"
#include "operator/api/field_filter.h"
#include "operator/api/json.h"

namespace janus::bench {
namespace {

using control::ApiResult;
using control::Node;
using control::Resource;

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
constexpr int kNodes = 100;
constexpr int kThreads = 8;

// An expert worker, as the operator makes it.
constexpr char kPod[] = R"({
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {
    "labels": {
      "app.kubernetes.io/name": "janus", "app.kubernetes.io/instance": "mixtral-8x7b",
      "app.kubernetes.io/component": "worker", "app.kubernetes.io/managed-by": "janus-operator",
      "app.kubernetes.io/part-of": "mixtral-8x7b", "app.kubernetes.io/version": "0.1.0",
      "serving.janus.dev/service": "mixtral-8x7b", "serving.janus.dev/role": "experts",
      "serving.janus.dev/revision": "7f9c2ba4e88f827d", "serving.janus.dev/epoch-joined": "17"
    },
    "annotations": {
      "serving.janus.dev/configuration-hash": "616026505a8b1ba8cf1d4e8b7e2f3f1f4b3d0b5a9a1c2d3e",
      "serving.janus.dev/placement": "layer 0: 3,17,42,55; layer 1: 2,18,40,61; layer 2: 5,9,33,60",
      "prometheus.io/scrape": "true", "prometheus.io/port": "9100"
    }
  },
  "spec": {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 300,
    "automountServiceAccountToken": false, "enableServiceLinks": false,
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
      {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector":
        {"matchLabels": {"serving.janus.dev/service": "mixtral-8x7b",
                         "serving.janus.dev/role": "experts"}}}}]}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
      "whenUnsatisfiable": "ScheduleAnyway", "labelSelector":
        {"matchLabels": {"serving.janus.dev/service": "mixtral-8x7b"}}}],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{
      "name": "worker", "image": "registry.example.com/janus/worker:0.1.0",
      "imagePullPolicy": "IfNotPresent",
      "args": ["--supervise", "4", "--role", "experts", "--model", "/models/mixtral-8x7b",
               "--device", "cuda", "--listen", "0.0.0.0:9000", "--trust", "/var/run/janus/trust",
               "--service-uid", "2f6d9bb5-6c0c-4a35-a5f7-0b62c34d1c11"],
      "env": [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "UCX_TLS", "value": "rc,cuda_copy,cuda_ipc,tcp"},
        {"name": "UCX_NET_DEVICES", "value": "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"},
        {"name": "NCCL_IB_HCA", "value": "mlx5"}, {"name": "OMP_NUM_THREADS", "value": "8"}],
      "ports": [{"name": "control", "containerPort": 9000}, {"name": "exchange", "containerPort": 9001},
                {"name": "metrics", "containerPort": 9100}],
      "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}},
      "startupProbe": {"httpGet": {"path": "/startup", "port": "metrics"}, "periodSeconds": 2,
                       "failureThreshold": 900},
      "readinessProbe": {"httpGet": {"path": "/ready", "port": "metrics"}, "periodSeconds": 2},
      "livenessProbe": {"httpGet": {"path": "/live", "port": "metrics"}, "periodSeconds": 10},
      "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                          "capabilities": {"drop": ["ALL"]}},
      "terminationMessagePolicy": "FallbackToLogsOnError",
      "volumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": true},
                       {"name": "run", "mountPath": "/run/janus"},
                       {"name": "trust", "mountPath": "/var/run/janus/trust", "readOnly": true}]}],
    "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": true}},
                {"name": "run", "emptyDir": {"medium": "Memory"}},
                {"name": "trust", "secret": {"secretName": "mixtral-8x7b-experts-trust"}}]
  }
})";

std::string NameOf(int number) {
  char name[64];
  std::snprintf(name, sizeof name, "mixtral-8x7b-experts-7f9c2ba4e8-%05d", number);
  return name;
}

Node PodOf(int number, const Node& owner) {
  static const Node kTemplate = *control::ParseJson(kPod, "pod");
  Node pod = kTemplate;
  control::SetAt(pod, {"metadata", "name"}, Node::String(NameOf(number)));
  control::SetAt(pod, {"metadata", "namespace"}, Node::String(BenchNamespace()));
  control::SetAt(pod, {"metadata", "labels", "serving.janus.dev/instance"},
                 Node::String(std::to_string(number)));
  control::SetAt(pod, {"spec", "nodeName"},
                 Node::String("fake-" + std::to_string(number % kNodes)));
  Node reference = Node::Map();
  reference.Add("apiVersion", Node::String("v1"));
  reference.Add("kind", Node::String("ConfigMap"));
  reference.Add("name", Node::String(control::KeyOf(owner).name));
  reference.Add("uid", Node::String(control::UidOf(owner)));
  Node references = Node::List();
  references.items.push_back(std::move(reference));
  control::SetAt(pod, {"metadata", "ownerReferences"}, std::move(references));
  return pod;
}

// Runs work(i) for each i below `count`, on as many threads as there are connections.
template <class Work>
void InParallel(int count, const Work& work) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < count; i += kThreads) work(i);
    });
  }
}

}  // namespace

std::string BenchNamespace() {
  const char* const name = std::getenv("JANUS_NAMESPACE");
  JANUS_CHECK(name != nullptr, "JANUS_NAMESPACE is not set");
  return name;
}

control::KubeClientOptions BenchClientOptions() {
  control::KubeClientOptions options;
  options.name = "kube-bench";
  return options;
}

std::unique_ptr<control::KubeClient> MakeClient(const control::Timeline& timeline) {
  const char* const file = std::getenv("KUBECONFIG");
  JANUS_CHECK(file != nullptr, "KUBECONFIG is not set");
  Result<control::ClusterConfig> config = control::LoadKubeconfig(file, "");
  JANUS_CHECK(config.ok(), config.status().ToString());
  control::KubeClientOptions options = BenchClientOptions();
  options.transport.calls_per_second = 1e6;
  options.transport.burst = 1e6;
  return std::make_unique<control::KubeClient>(*std::move(config), options, timeline);
}

control::FieldFilter PodFilter() {
  return control::FieldFilter({"metadata.resourceVersion", "metadata.labels",
                               "metadata.ownerReferences", "metadata.deletionTimestamp",
                               "spec.nodeName", "status.phase", "status.podIP", "status.conditions",
                               "status.containerStatuses.name", "status.containerStatuses.ready",
                               "status.containerStatuses.restartCount"});
}

control::ObjectStoreOptions KeptOfPods() {
  control::ObjectStoreOptions options;
  options.transform = PodFilter();
  return options;
}

control::ReflectorOptions PodOptions() {
  control::ReflectorOptions options;
  options.keep = PodFilter();
  return options;
}

void Fill(int count) {
  const control::SystemTimeline timeline;
  const auto client = MakeClient(timeline);
  // Pods with a missing owner would be garbage-collected.
  Node owner = Node::Map();
  owner.Add("apiVersion", Node::String("v1"));
  owner.Add("kind", Node::String("ConfigMap"));
  control::SetAt(owner, {"metadata", "name"}, Node::String("owner"));
  control::SetAt(owner, {"metadata", "namespace"}, Node::String(BenchNamespace()));
  const ApiResult<Node> made = client->Create(kConfigMaps, owner, {}, {});
  JANUS_CHECK(made.ok(), made.status().ToString());
  InParallel(count, [&](int i) {
    const ApiResult<Node> done = client->Create(kPods, PodOf(i, *made), {}, {});
    JANUS_CHECK(done.ok(), done.status().ToString());
  });
}

void Thin(int count, int step) {
  const control::SystemTimeline timeline;
  const auto client = MakeClient(timeline);
  control::DeleteOptions now;
  now.grace_period_seconds = 0;
  InParallel(count / step, [&](int i) {
    const ApiResult<Node> done =
        client->Delete(kPods, {BenchNamespace(), NameOf(i * step)}, now, {});
    JANUS_CHECK(done.ok(), done.status().ToString());
  });
}

void Churn(int count, int step, int writes, const std::string& log) {
  const control::SystemTimeline timeline;
  const auto client = MakeClient(timeline);
  std::vector<int> left;
  for (int i = 0; i < count; ++i) {
    if (i % step != 0) left.push_back(i);
  }
  std::vector<std::string> lines(static_cast<size_t>(writes));
  const MonotonicTime began = MonotonicClock::now();
  // A new value in each run: a write that changes nothing causes no event.
  const int64_t first = Nanoseconds(began);
  InParallel(writes, [&](int i) {
    Node patch = Node::Map();
    control::SetAt(patch, {"metadata", "labels", "bench"}, Node::String(std::to_string(first + i)));
    const std::string name = NameOf(left[static_cast<size_t>(i) % left.size()]);
    const ApiResult<Node> done =
        client->Patch(kPods, {BenchNamespace(), name}, control::PatchKind::kMerge, patch,
                      control::Subresource::kNone, {}, {});
    JANUS_CHECK(done.ok(), done.status().ToString());
    lines[static_cast<size_t>(i)] = name + ' ' + std::string(control::ResourceVersionOf(*done)) +
                                    ' ' + std::to_string(Nanoseconds(MonotonicClock::now())) + '\n';
  });
  const Seconds took = MonotonicClock::now() - began;
  std::ofstream out(log);
  for (const std::string& line : lines) out << line;
  std::printf("{\"writes\":%d,\"writes_per_second\":%.4g}\n", writes, writes / took.count());
}

}  // namespace janus::bench
