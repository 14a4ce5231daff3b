#include "operator/reconcile/children/children.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/template_conflicts.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

const OperatorDefaults kDefaults{.gateway_image = "gateway:1"};

MoEService Chat() {
  MoEService service;
  service.metadata.name = "chat";
  service.metadata.namespace_ = "prod";
  service.metadata.uid = "uid-1";
  service.spec.model.source.type = SourceType::kHostPath;
  service.spec.model.source.host_path = HostPathSource{"/models/demo"};
  return service;
}

Node Worker(const MoEService& service, Role role = Role::kExperts) {
  return WorkerPod(service, kDefaults, {role, "bcdfghjklm", 7, "worker:1"});
}

const Node* Named(const std::vector<Child>& children, const Resource& resource,
                  std::string_view name) {
  for (const Child& child : children) {
    if (child.resource == &resource && TextAt(child.object, {"metadata", "name"}) == name) {
      return &child.object;
    }
  }
  return nullptr;
}

const Node* ItemOf(const Node* list, std::string_view key, std::string_view value) {
  if (list == nullptr) return nullptr;
  for (const Node& item : list->items) {
    if (TextAt(item, {key}) == value) return &item;
  }
  return nullptr;
}

// True if `selector`, a map of labels, selects an object with the labels in `metadata`.
bool Selects(const Node* selector, const Node& metadata) {
  if (selector == nullptr || selector->fields.empty()) return false;
  return std::all_of(selector->fields.begin(), selector->fields.end(), [&](const NodeField& one) {
    return TextAt(metadata, {"labels", one.name}) == one.value.text;
  });
}

TEST(ChildrenOf, EverySelectorTakesItsPodsAndNoOthers) {
  const MoEService service = Chat();
  const std::vector<Child> children = ChildrenOf(service, kDefaults, {2, 3});
  const Node* gateway = Named(children, kDeployments, "chat-gateway");
  const Node* endpoint = Named(children, kServices, "chat");
  const Node* members = Named(children, kServices, "chat-members");
  const Node* attention_budget = Named(children, kDisruptionBudgets, "chat-attention");
  const Node* experts_budget = Named(children, kDisruptionBudgets, "chat-experts");
  const Node* gateway_budget = Named(children, kDisruptionBudgets, "chat-gateway");
  ASSERT_TRUE(gateway && endpoint && members && attention_budget && experts_budget &&
              gateway_budget);
  const Node& of_gateway = *FindAt(*gateway, {"spec", "template", "metadata"});
  Node attention = *Worker(service, Role::kAttention).Find("metadata");
  Node experts = *Worker(service, Role::kExperts).Find("metadata");

  EXPECT_TRUE(Selects(FindAt(*gateway, {"spec", "selector", "matchLabels"}), of_gateway));
  for (const auto& [selector, takes_gateway, takes_workers] :
       {std::tuple{FindAt(*endpoint, {"spec", "selector"}), true, false},
        std::tuple{FindAt(*gateway, {"spec", "selector", "matchLabels"}), true, false},
        std::tuple{FindAt(*gateway_budget, {"spec", "selector", "matchLabels"}), true, false},
        std::tuple{FindAt(*members, {"spec", "selector"}), false, true}}) {
    EXPECT_EQ(Selects(selector, of_gateway), takes_gateway);
    EXPECT_EQ(Selects(selector, attention), takes_workers);
    EXPECT_EQ(Selects(selector, experts), takes_workers);
  }
  const Node* of_attention = FindAt(*attention_budget, {"spec", "selector", "matchLabels"});
  const Node* of_experts = FindAt(*experts_budget, {"spec", "selector", "matchLabels"});
  EXPECT_FALSE(Selects(of_experts, experts)) << "it is no member yet";
  SetAt(experts, {"labels", kMemberLabel}, Text("true"));
  SetAt(attention, {"labels", kMemberLabel}, Text("true"));
  EXPECT_TRUE(Selects(of_experts, experts));
  EXPECT_FALSE(Selects(of_experts, attention));
  EXPECT_TRUE(Selects(of_attention, attention));
  EXPECT_EQ(IntegerAt(*attention_budget, {"spec", "minAvailable"}), 2);
  EXPECT_EQ(IntegerAt(*experts_budget, {"spec", "minAvailable"}), 3);
}

TEST(ChildrenOf, NoBudgetHoldsUpWhatServesNobody) {
  const std::vector<Child> children = ChildrenOf(Chat(), kDefaults, {});
  EXPECT_EQ(std::ranges::count(children, &kDisruptionBudgets, &Child::resource), 1);
  for (const Child& child : children) {
    if (child.resource != &kDisruptionBudgets) continue;
    EXPECT_EQ(TextAt(child.object, {"metadata", "name"}), "chat-gateway");
    EXPECT_EQ(TextAt(child.object, {"spec", "unhealthyPodEvictionPolicy"}), "AlwaysAllow");
    EXPECT_EQ(FindAt(child.object, {"spec", "minAvailable"}), nullptr);
  }
}

TEST(ChildrenOf, TheOnlyGatewayIsNotEvictedBeforeASpareOneIsThere) {
  const auto made = [](int gateways, LeavingGateways leaving) {
    MoEService service = Chat();
    service.spec.gateway.replicas = gateways;
    const std::vector<Child> children = ChildrenOf(service, kDefaults, {}, leaving);
    const Node* budget = Named(children, kDisruptionBudgets, "chat-gateway");
    return std::tuple(
        IntegerAt(*Named(children, kDeployments, "chat-gateway"), {"spec", "replicas"}),
        IntegerAt(*budget, {"spec", "minAvailable"}),
        IntegerAt(*budget, {"spec", "maxUnavailable"}));
  };
  const std::optional<int64_t> none;
  EXPECT_EQ(made(1, 0), std::tuple(1, 1, none));
  EXPECT_EQ(made(1, 1), std::tuple(2, 1, none));
  EXPECT_EQ(made(1, std::nullopt), std::tuple(1, none, 1)) << "nothing would make room";
  EXPECT_EQ(made(2, 1), std::tuple(2, none, 1)) << "the other one answers";
}

TEST(ChildrenOf, AllAreOwnedByTheServiceAndInItsNamespace) {
  MoEService closed = Chat();
  closed.spec.security.network_policy = true;
  std::vector<Child> children = ChildrenOf(closed, kDefaults, {1, 1});
  children.push_back({&kPods, Worker(Chat())});
  for (const Child& child : children) {
    SCOPED_TRACE(child.resource->ToString());
    EXPECT_EQ(TextAt(child.object, {"kind"}), child.resource->kind);
    EXPECT_EQ(TextAt(child.object, {"apiVersion"}), child.resource->ApiVersion());
    EXPECT_EQ(TextAt(child.object, {"metadata", "namespace"}), "prod");
    EXPECT_EQ(Judge(Chat(), child.object, child.object), Standing::kAsWanted);
  }
}

TEST(Judge, KnowsOursFromOthersAndDriftFromRest) {
  const MoEService service = Chat();
  const Node wanted = Named(ChildrenOf(service, kDefaults, {}), kServices, "chat") != nullptr
                          ? *Named(ChildrenOf(service, kDefaults, {}), kServices, "chat")
                          : Node();
  Node there = wanted;
  SetAt(there, {"spec", "clusterIP"}, Text("10.0.0.1"));
  EXPECT_EQ(Judge(service, there, wanted), Standing::kAsWanted) << "not ours to say";
  MoEService edited = service;
  edited.spec.gateway.service.port = 8080;
  const std::vector<Child> others = ChildrenOf(edited, kDefaults, {});
  EXPECT_EQ(Judge(service, there, *Named(others, kServices, "chat")), Standing::kDrifted);
  SetAt(there, {"metadata", "annotations"}, Node::Map());
  EXPECT_EQ(Judge(service, there, wanted), Standing::kDrifted);
  SetAt(there, {"metadata", "deletionTimestamp"}, Text("2026-01-01T00:00:00Z"));
  EXPECT_EQ(Judge(service, there, wanted), Standing::kLeaving);

  MoEService successor = service;  // deleted and recreated under the same name
  successor.metadata.uid = "uid-2";
  EXPECT_EQ(Judge(successor, wanted, wanted), Standing::kForeign);
  there = wanted;
  SetAt(there, {"metadata", "ownerReferences"}, Node::List());
  EXPECT_EQ(Judge(service, there, wanted), Standing::kForeign) << "nobody's is not ours either";
}

TEST(WorkerPod, HasWhatTheWorkerNeeds) {
  const Node pod = Worker(Chat());
  EXPECT_EQ(TextAt(pod, {"metadata", "name"}), "chat-experts-bcdfghjklm-7");
  EXPECT_EQ(TextAt(pod, {"metadata", "labels", kRevisionLabel}), "bcdfghjklm");
  EXPECT_EQ(IntegerAt(pod, {"spec", "terminationGracePeriodSeconds"}), 330);
  const Node* worker = ItemOf(FindAt(pod, {"spec", "containers"}), "name", "worker");
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(TextAt(*worker, {"image"}), "worker:1");
  std::string arguments;
  for (const Node& one : worker->Find("args")->items) arguments += one.text + " ";
  EXPECT_EQ(
      arguments,
      "--role=experts --model=/model --device=cpu --service-uid=uid-1 --listen=$(POD_IP):9000 "
      "--metrics=$(POD_IP):9100 --drain-seconds=300 ");
  EXPECT_EQ(TextAt(*ItemOf(worker->Find("env"), "name", "UCX_TCP_PORT_RANGE"), {"value"}),
            "9200-9231");
  const Node* volume = ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "model");
  ASSERT_NE(volume, nullptr);
  EXPECT_EQ(TextAt(*volume, {"hostPath", "path"}), "/models/demo");
  const Node* mount = ItemOf(worker->Find("volumeMounts"), "mountPath", "/model");
  ASSERT_NE(mount, nullptr);
  EXPECT_TRUE(mount->Find("readOnly")->boolean);
}

// Except for the limit it is the same pod.
TEST(WorkerPod, ComputesOnTheDeviceThatTheServiceComesTo) {
  MoEService service = Chat();
  const auto device = [&] {
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const Node pod = Worker(service, role);
      EXPECT_EQ(ItemOf(FindAt(pod, {"spec", "containers"}), "name", "worker")
                    ->Find("args")
                    ->items[2]
                    .text.substr(0, 9),
                "--device=");
    }
    const Node pod = Worker(service);
    return ItemOf(FindAt(pod, {"spec", "containers"}), "name", "worker")
        ->Find("args")
        ->items[2]
        .text;
  };
  EXPECT_EQ(device(), "--device=cpu");
  service.spec.roles.experts.resources.limits["nvidia.com/gpu"] = *ParseQuantity("1");
  EXPECT_EQ(device(), "--device=cpu");
  service.spec.roles.attention.resources.limits["nvidia.com/gpu"] = *ParseQuantity("1");
  EXPECT_EQ(device(), "--device=cuda");
  const Node pod = Worker(service);
  const Node* const worker = ItemOf(FindAt(pod, {"spec", "containers"}), "name", "worker");
  EXPECT_EQ(TextAt(*worker, {"resources", "limits", "nvidia.com/gpu"}), "1");
  const Node* const memory = ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "shared-memory");
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(TextAt(*memory, {"emptyDir", "medium"}), "Memory");
  service.spec.device = Device::kCpu;
  EXPECT_EQ(device(), "--device=cpu");
}

TEST(WorkerPod, FindsTheModelWhereItsSourceHasIt) {
  MoEService service = Chat();
  service.spec.model.source = {};
  service.spec.model.source.type = SourceType::kPersistentVolumeClaim;
  service.spec.model.source.persistent_volume_claim = PersistentVolumeClaimSource{"weights", "v2"};
  Node pod = Worker(service);
  EXPECT_EQ(
      ItemOf(FindAt(pod, {"spec", "containers"}), "name", "worker")->Find("args")->items[1].text,
      "--model=/model/v2");
  EXPECT_EQ(TextAt(*ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "model"),
                   {"persistentVolumeClaim", "claimName"}),
            "weights");
  // Read-only, so that many nodes may mount it.
  PodIdentity experts;
  experts.role = Role::kExperts;
  for (const auto& [name, tree] :
       {std::pair{"worker", pod}, std::pair{"worker", WorkerPod(service, {}, experts)},
        std::pair{"gateway", GatewayTemplate(service, {})}}) {
    EXPECT_TRUE(FindAt(*ItemOf(FindAt(tree, {"spec", "volumes"}), "name", "model"),
                       {"persistentVolumeClaim", "readOnly"})
                    ->boolean);
    const Node* const container = ItemOf(FindAt(tree, {"spec", "containers"}), "name", name);
    const Node* const mount = ItemOf(container->Find("volumeMounts"), "mountPath", "/model");
    ASSERT_NE(mount, nullptr);
    EXPECT_TRUE(mount->Find("readOnly")->boolean);
  }
  service.spec.model.source = {};
  service.spec.model.source.type = SourceType::kImage;
  service.spec.model.source.image = ImageSource{"/models/demo"};
  pod = Worker(service);
  EXPECT_EQ(
      ItemOf(FindAt(pod, {"spec", "containers"}), "name", "worker")->Find("args")->items[1].text,
      "--model=/models/demo");
  EXPECT_EQ(ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "model"), nullptr);
}

// Kueue's queue name, a sidecar, an affinity, an environment variable: fields without a typed one.
TEST(WorkerPod, KeepsWhatThePodTemplateSaysBesideWhatIsOurs) {
  MoEService service = Chat();
  service.spec.roles.experts.pod_template = *ParseYaml(R"(
metadata:
  labels: {kueue.x-k8s.io/queue-name: team-a, serving.janus.dev/role: gateway}
  annotations: {a: b}
spec:
  runtimeClassName: nvidia
  nodeSelector: {zone: a, disk: ssd}
  securityContext: {runAsNonRoot: false}
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
  - {name: sidecar, image: side}
  - name: worker
    image: not-ours-to-say
    env: [{name: LD_PRELOAD, value: x}]
    resources: {limits: {cpu: "1", memory: 1Gi}}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
)",
                                                       "template");
  service.spec.roles.experts.node_selector = {{"zone", "b"}};
  service.spec.roles.experts.resources.limits["cpu"] = *ParseQuantity("4");
  const Node pod = Worker(service);
  const auto text = [&](FieldPath path) { return TextAt(pod, path); };
  EXPECT_EQ(text({"metadata", "labels", "kueue.x-k8s.io/queue-name"}), "team-a");
  EXPECT_EQ(text({"metadata", "labels", kRoleLabel}), "experts") << "what is ours stays ours";
  EXPECT_EQ(text({"metadata", "annotations", "a"}), "b");
  EXPECT_EQ(text({"spec", "runtimeClassName"}), "nvidia");
  EXPECT_EQ(text({"spec", "nodeSelector", "zone"}), "b") << "the typed field is the stronger one";
  EXPECT_EQ(text({"spec", "nodeSelector", "disk"}), "ssd");
  EXPECT_FALSE(FindAt(pod, {"spec", "securityContext", "runAsNonRoot"})->boolean);
  EXPECT_NE(ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "scratch"), nullptr);
  EXPECT_NE(ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "model"), nullptr);
  const Node* containers = FindAt(pod, {"spec", "containers"});
  ASSERT_EQ(containers->items.size(), 2u);
  EXPECT_NE(ItemOf(containers, "name", "sidecar"), nullptr);
  const Node* worker = ItemOf(containers, "name", "worker");
  EXPECT_EQ(TextAt(*worker, {"image"}), "worker:1");
  EXPECT_NE(ItemOf(worker->Find("env"), "name", "LD_PRELOAD"), nullptr);
  EXPECT_NE(ItemOf(worker->Find("env"), "name", "POD_IP"), nullptr);
  EXPECT_EQ(TextAt(*worker, {"resources", "limits", "cpu"}), "4");
  EXPECT_EQ(TextAt(*worker, {"resources", "limits", "memory"}), "1Gi");
  EXPECT_NE(ItemOf(worker->Find("volumeMounts"), "mountPath", "/scratch"), nullptr);
}

std::vector<std::string> Paths(const MoEService& service) {
  std::vector<std::string> out;
  for (const FieldError& one : TemplateConflicts(service, kDefaults)) out.push_back(one.path);
  return out;
}

TEST(TemplateConflicts, NamesWhatOfAPodTemplateNoPodWouldHave) {
  MoEService service = Chat();
  service.spec.image = "worker:1";
  service.spec.roles.experts.node_selector = {{"zone", "b"}};
  service.spec.roles.experts.pod_template = *ParseYaml(R"(
kind: Pod
metadata:
  labels: {serving.janus.dev/role: gateway, serving.janus.dev/member: "true", team: a}
spec:
  restartPolicy: Always
  terminationGracePeriodSeconds: 5
  nodeSelector: {zone: a}
  tolerations: [{key: a}]
  readinessGates: [{conditionType: mine}]
  volumes: [{name: scratch, emptyDir: {}}, {name: sockets, hostPath: {path: /run}}]
  containers:
  - {name: sidecar, image: side, args: [x]}
  - name: worker
    image: mine
    args: [--mine]
    command: [/wrapper]
    env: [{name: MINE, value: x}, {name: POD_IP, value: y}]
    ports: [{containerPort: 5}]
    readinessProbe: {exec: {command: [x]}}
)",
                                                       "template");
  service.spec.gateway.pod_template =
      *ParseYaml("{spec: {containers: [{name: gateway, image: mine, env: [{name: A, value: b}]}]}}",
                 "gateway");
  const std::string experts = "spec.roles.experts.podTemplate.";
  const std::string worker = experts + "spec.containers[1].";
  EXPECT_EQ(Paths(service),
            (std::vector<std::string>{
                experts + "metadata.labels.serving.janus.dev/role",
                experts + "spec.terminationGracePeriodSeconds", experts + "spec.readinessGates",
                experts + "spec.volumes[1].hostPath", worker + "image", worker + "args",
                worker + "env[1].value", worker + "readinessProbe.exec",
                experts + "metadata.labels.serving.janus.dev/member",
                "spec.gateway.podTemplate.spec.containers[0].image"}));
  EXPECT_NE(TemplateConflicts(service, kDefaults).at(4).message.find("spec.image"),
            std::string::npos);
}

TEST(TemplateConflicts, FindsNothingInWhatIsKept) {
  MoEService service = Chat();
  EXPECT_EQ(Paths(service), std::vector<std::string>());
  service.spec.image = "worker:1";
  service.spec.roles.attention.pod_template = *ParseYaml(R"(
apiVersion: v1
metadata: {annotations: {a: b}}
spec:
  nodeSelector:
  schedulerName: volcano
  securityContext: {runAsNonRoot: false}
  containers: [{name: worker, image: "worker:1", imagePullPolicy: Always, resources: {limits: {cpu: 1}}}]
)",
                                                         "template");
  service.spec.roles.attention.scheduler_name = "kai";
  service.spec.roles.attention.resources.limits["cpu"] = *ParseQuantity("4");
  EXPECT_EQ(Paths(service), std::vector<std::string>());
}

TEST(GatewayTemplate, IsAnotherOneOnceARestartIsAskedFor) {
  MoEService service = Chat();
  const Node before = GatewayTemplate(service, kDefaults);
  service.metadata.annotations[std::string(kRestartedAtAnnotation)] = "2026-01-01T00:00:00Z";
  EXPECT_NE(GatewayTemplate(service, kDefaults), before);
}

TEST(GatewayTemplate, RequestsWhatItNeedsUnlessItsUserSaysMore) {
  const auto requests = [](const MoEService& service) {
    const Node pod = GatewayTemplate(service, kDefaults);
    const Node* resources =
        FindAt(*ItemOf(FindAt(pod, {"spec", "containers"}), "name", "gateway"), {"resources"});
    return std::pair(std::string(TextAt(*resources, {"requests", "cpu"})),
                     std::string(TextAt(*resources, {"requests", "memory"})));
  };
  MoEService service = Chat();
  EXPECT_EQ(requests(service), std::pair(std::string("100m"), std::string("128Mi")));
  service.spec.gateway.pod_template = *ParseYaml(
      "spec: {containers: [{name: gateway, resources: {requests: {cpu: 10m}}}]}", "template");
  EXPECT_EQ(requests(service), std::pair(std::string("10m"), std::string("128Mi")));
  service.spec.gateway.resources.requests["cpu"] = *ParseQuantity("2");
  EXPECT_EQ(requests(service), std::pair(std::string("2"), std::string("128Mi")));
  EXPECT_TRUE(TemplateConflicts(service, kDefaults).empty());
  // A request above the limit would be refused.
  service.spec.gateway.resources.limits["memory"] = *ParseQuantity("64Mi");
  EXPECT_EQ(requests(service), std::pair(std::string("2"), std::string()));
}

TEST(GatewayTemplate, CarriesTheServicesLimitsAndKeys) {
  MoEService service = Chat();
  service.spec.drain.timeout_seconds = 60;
  service.spec.gateway.api_keys_secret_ref = SecretKeyRef{"keys", "all"};
  service.spec.model.names = {"org/chat", "gpt-4"};
  const Node pod = GatewayTemplate(service, kDefaults);
  const Node* gateway = ItemOf(FindAt(pod, {"spec", "containers"}), "name", "gateway");
  ASSERT_NE(gateway, nullptr);
  std::string arguments;
  for (const Node& one : gateway->Find("args")->items) arguments += one.text + " ";
  EXPECT_EQ(arguments,
            "--listen=0.0.0.0:8000 --model=/model --model-name=chat --member=chat-members:9000 "
            "--service-uid=uid-1 --queued-requests=4096 --open-streams=4096 "
            "--request-bytes=4194304 --hold-seconds=300 --stall-seconds=300 --lame-duck-seconds=10 "
            "--drain-seconds=60 --model-alias=org/chat --model-alias=gpt-4 "
            "--api-keys-file=/etc/janus/api-keys/keys ");
  // The lame-duck and drain times, and 30 s to end open streams.
  EXPECT_EQ(IntegerAt(pod, {"spec", "terminationGracePeriodSeconds"}), 100);
  EXPECT_EQ(IntegerAt(*gateway, {"readinessProbe", "timeoutSeconds"}), 10)
      << "busy nodes answer late";
  EXPECT_EQ(TextAt(*ItemOf(FindAt(pod, {"spec", "volumes"}), "name", "api-keys"),
                   {"secret", "secretName"}),
            "keys");
}

}  // namespace
}  // namespace janus::control
