#include "operator/reconcile/pods/worker_pod.h"

#include <utility>
#include <vector>

#include "common/pools.h"
#include "operator/api/device.h"
#include "operator/kube/object.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/pods/revision.h"

namespace janus::control {
namespace {

// A pod gets SIGTERM at the same moment as its Service starts to drop it. Until every node knows, a
// few seconds, new connections still arrive.
constexpr int kLameDuckSeconds = 10;
// Longest expected time without a worker. Kubernetes marks a node unreachable after 50 s
// (kube-controller-manager, --node-monitor-grace-period). We give up its pods 60 s later, and then
// another pod must start and load. Requests wait that long.
constexpr int kOutageSeconds = 300;

// For an answer to a gateway's readiness probe. Two late answers in a row take the gateway out of
// its Service. With Kubernetes' default of one second, gateways on busy nodes were all taken out at
// once. Clients were then refused by a Service without endpoints, instead of being answered late.
constexpr int kReadinessSeconds = 10;

// From SIGTERM to SIGKILL of a container that fails its liveness probe.
constexpr int kHungGraceSeconds = 5;

// The field, created if missing. Valid until another is added to `map`.
Node& FieldOf(Node& map, std::string_view name, Node otherwise) {
  if (map.kind != Node::Kind::kMap) map = Node::Map();
  for (NodeField& field : map.fields) {
    if (field.name == name) return field.value;
  }
  return map.Add(name, std::move(otherwise));
}

// The item with `key` equal to `value` in a list of maps; appended if missing.
Node& ItemOf(Node& list, std::string_view key, std::string_view value) {
  if (list.kind != Node::Kind::kList) list = Node::List();
  for (Node& item : list.items) {
    if (TextAt(item, {key}) == value) return item;
  }
  list.items.push_back(Object({{key, Text(value)}}));
  return list.items.back();
}

// Overlays a pod on what its user gave.
class PodWriter {
 public:
  PodWriter(const std::optional<Node>& given, std::string_view container)
      : pod_(given.value_or(Node::Map())), container_(container) {}

  void Set(FieldPath path, Node value) { SetAt(pod_, path, std::move(value)); }
  // Sets a value unless the user has set one.
  void Default(FieldPath path, Node value) {
    if (FindAt(pod_, path) == nullptr) SetAt(pod_, path, std::move(value));
  }
  Node& container() {
    return ItemOf(FieldOf(FieldOf(pod_, "spec", Node::Map()), "containers", Node::List()), "name",
                  container_);
  }
  void SetOfContainer(std::string_view field, Node value) {
    SetAt(container(), {field}, std::move(value));
  }
  void DefaultOfContainer(FieldPath path, Node value) {
    if (FindAt(container(), path) == nullptr) SetAt(container(), path, std::move(value));
  }
  // `field`: "value" or "valueFrom".
  void Env(std::string_view name, std::string_view field, Node value) {
    Node& variable = ItemOf(FieldOf(container(), "env", Node::List()), "name", name);
    variable = Object({{"name", Text(name)}, {field, std::move(value)}});
  }
  void Port(std::string_view name, int port) {
    Node& item = ItemOf(FieldOf(container(), "ports", Node::List()), "name", name);
    item = Object(
        {{"name", Text(name)}, {"containerPort", Node::Integer(port)}, {"protocol", Text("TCP")}});
  }
  // Overlays an init container on the user's one of the same name.
  void InitContainer(const Node& made) {
    Node& there =
        ItemOf(FieldOf(FieldOf(pod_, "spec", Node::Map()), "initContainers", Node::List()), "name",
               TextAt(made, {"name"}));
    for (const NodeField& field : made.fields) {
      // Of these the user's ones count.
      const bool is_given = there.Find(field.name) != nullptr;
      if (is_given && (field.name == "resources" || field.name == "securityContext")) continue;
      SetAt(there, {field.name}, field.value);
    }
  }
  // Adds a volume, and its mount in the container.
  void Volume(std::string_view name, std::string_view kind, Node source, std::string_view path,
              bool read_only) {
    Node& volume =
        ItemOf(FieldOf(FieldOf(pod_, "spec", Node::Map()), "volumes", Node::List()), "name", name);
    volume = Object({{"name", Text(name)}, {kind, std::move(source)}});
    Node& mount = ItemOf(FieldOf(container(), "volumeMounts", Node::List()), "mountPath", path);
    mount = Object({{"mountPath", Text(path)}, {"name", Text(name)}});
    if (read_only) mount.Add("readOnly", Node::Bool(true));
  }
  Node Take() && { return std::move(pod_); }

 private:
  Node pod_;
  std::string_view container_;
};

Node Strings(const std::vector<std::string>& texts) {
  Node out = Node::List();
  for (const std::string& text : texts) out.items.push_back(Text(text));
  return out;
}

Node FromPod(std::string_view field) {
  return Object({{"fieldRef", Object({{"fieldPath", Text(field)}})}});
}

Node Probe(std::string_view path, int period_seconds, int failures) {
  return Object({{"httpGet", Object({{"path", Text(path)}, {"port", Text("metrics")}})},
                 {"periodSeconds", Node::Integer(period_seconds)},
                 // A silent client can block the server for one second.
                 {"timeoutSeconds", Node::Integer(3)},
                 {"failureThreshold", Node::Integer(failures)}});
}

// Settings that the restricted Pod Security standard requires of every container.
void Restrict(PodWriter& pod) {
  pod.Default({"spec", "securityContext", "runAsNonRoot"}, Node::Bool(true));
  pod.Default({"spec", "securityContext", "seccompProfile"},
              Object({{"type", Text("RuntimeDefault")}}));
  pod.DefaultOfContainer({"securityContext", "allowPrivilegeEscalation"}, Node::Bool(false));
  pod.DefaultOfContainer({"securityContext", "readOnlyRootFilesystem"}, Node::Bool(true));
  pod.DefaultOfContainer({"securityContext", "capabilities"},
                         Object({{"drop", ListOf({Text("ALL")})}}));
}

// Common to workers and gateways.
void AddCommon(const MoEService& service, const OperatorDefaults& defaults, std::string_view image,
               PodWriter& pod) {
  pod.Set({"spec", "automountServiceAccountToken"}, Node::Bool(false));
  pod.Set({"spec", "enableServiceLinks"}, Node::Bool(false));
  if (!service.spec.image_pull_secrets.empty()) {
    Node secrets = Node::List();
    for (const LocalObjectRef& one : service.spec.image_pull_secrets) {
      secrets.items.push_back(Object({{"name", Text(one.name)}}));
    }
    pod.Set({"spec", "imagePullSecrets"}, std::move(secrets));
  }
  pod.SetOfContainer("image", Text(image));
  pod.DefaultOfContainer({"imagePullPolicy"}, Text(defaults.image_pull_policy));
  // `kubectl describe` shows the last log lines of a crash.
  pod.DefaultOfContainer({"terminationMessagePolicy"}, Text("FallbackToLogsOnError"));
  Restrict(pod);
}

// Adds the volume of a fetched model. Unless a Job fills a claim, an init container fetches what
// `reader` reads, with `image`: into a folder of the pod, or into the node's, of which the pods of
// a node fetch each file once (they take its lock).
std::string AddFetched(const MoEService& service, const OperatorDefaults& defaults,
                       std::string_view image, std::string_view reader, PodWriter& pod) {
  if (const auto& claim = service.spec.model.cache.persistent_volume_claim) {
    pod.Volume("model", "persistentVolumeClaim",
               Object({{"claimName", Text(claim->claim_name)}, {"readOnly", Node::Bool(true)}}),
               kModelMount, true);
  } else {
    if (const auto& node = service.spec.model.cache.node) {
      pod.Volume("model", "hostPath",
                 Object({{"path", Text(node->path)}, {"type", Text("DirectoryOrCreate")}}),
                 kModelMount, true);
    } else {
      pod.Volume("model", "emptyDir", Node::Map(), kModelMount, true);
    }
    pod.InitContainer(FetchContainer(service, defaults, image, reader, service.commit,
                                     service.spec.model.cache.node.has_value()));
  }
  return SnapshotFolder(service, kModelMount);
}

// Adds the model volume of a source other than a hub; returns its folder in the container.
std::string AddModel(const ModelSource& source, PodWriter& pod) {
  const std::string mount(kModelMount);
  if (source.host_path) {
    pod.Volume("model", "hostPath",
               Object({{"path", Text(source.host_path->path)}, {"type", Text("Directory")}}), mount,
               true);
  } else if (source.persistent_volume_claim) {
    const PersistentVolumeClaimSource& claim = *source.persistent_volume_claim;
    pod.Volume("model", "persistentVolumeClaim",
               Object({{"claimName", Text(claim.claim_name)}, {"readOnly", Node::Bool(true)}}),
               mount, true);
    return claim.path.empty() ? mount : mount + "/" + claim.path;
  } else if (source.image) {
    return source.image->path;
  }
  return mount;
}

// The kubelet makes the folder for root. An init container lets the workers make their sockets in
// it; it drops all capabilities, as the owner of a folder needs none.
void ShareHost(const MoEService& service, const OperatorDefaults& defaults, std::string_view image,
               PodWriter& pod) {
  constexpr std::string_view kName = "share-host";
  pod.Volume(kName, "hostPath",
             Object({{"path", Text(std::string(kHostFolder) + "/" + service.metadata.uid)},
                     {"type", Text("DirectoryOrCreate")}}),
             kHostMount, false);
  pod.InitContainer(Object(
      {{"name", Text(kName)},
       {"image", Text(image)},
       {"imagePullPolicy", Text(defaults.image_pull_policy)},
       {"args", Strings({"share-folder", std::string(kHostMount)})},
       {"volumeMounts", ListOf({Object({{"mountPath", Text(kHostMount)}, {"name", Text(kName)}})})},
       {"resources",
        Object({{"requests", Object({{"cpu", Text("10m")}, {"memory", Text("32Mi")}})}})},
       {"securityContext", Object({{"allowPrivilegeEscalation", Node::Bool(false)},
                                   {"readOnlyRootFilesystem", Node::Bool(true)},
                                   {"capabilities", Object({{"drop", ListOf({Text("ALL")})}})},
                                   {"runAsUser", Node::Integer(0)},
                                   {"runAsNonRoot", Node::Bool(false)}})}}));
}

// Mounts the certificates of the pod's role only.
void AddTrust(const MoEService& service, const OperatorDefaults& defaults, std::string_view role,
              PodWriter& pod, std::vector<std::string>& arguments) {
  if (!UsesTls(service, defaults)) return;
  pod.Volume(kTrustVolume, "secret",
             Object({{"secretName", Text(TlsSecretName(service.metadata.name, role))}}),
             kTrustMount, true);
  arguments.push_back("--trust=" + std::string(kTrustMount));
}

// The host at which a gateway finds workers.
std::string MembersSought(const MoEService& service) {
  if (!UsesPools(service.spec)) return MembersName(service.metadata.name);
  return service.metadata.name + "-pool-{pool}";
}

std::string DeviceName(Device device) {
  return device == Device::kCuda ? "cuda" : "cpu";
}

Node TolerationTree(const Toleration& one) {
  Node out = Node::Map();
  if (!one.key.empty()) out.Add("key", Text(one.key));
  out.Add("operator", Text(ToString(one.op)));
  if (!one.value.empty()) out.Add("value", Text(one.value));
  if (one.effect) out.Add("effect", Text(ToString(*one.effect)));
  if (one.toleration_seconds) out.Add("tolerationSeconds", Node::Integer(*one.toleration_seconds));
  return out;
}

// In the user's words if there is one.
std::string Times(const Quantity& quantity, int instances) {
  if (instances == 1) return quantity.text;
  const int64_t milli = quantity.milli * instances;
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : std::to_string(milli) + "m";
}

void AddResources(const Resources& resources, int instances, PodWriter& pod) {
  const auto quantities = [&](std::string_view kind, const std::map<std::string, Quantity>& of) {
    for (const auto& [resource, quantity] : of) {
      SetAt(pod.container(), {"resources", kind, resource}, Text(Times(quantity, instances)));
    }
  };
  quantities("requests", resources.requests);
  quantities("limits", resources.limits);
}

// Without requests a gateway is the first pod that a full node evicts. The measured gateway of the
// demo model takes 40 MB and a tenth of a core when idle. Where a limit is set, Kubernetes requests
// as much.
void AddGatewayRequests(PodWriter& pod) {
  for (const auto& [resource, amount] : {std::pair("cpu", "100m"), {"memory", "128Mi"}}) {
    if (FindAt(pod.container(), {"resources", "limits", resource}) != nullptr) continue;
    pod.DefaultOfContainer({"resources", "requests", resource}, Text(amount));
  }
}

// The typed fields of a role, which override its podTemplate.
void AddScheduling(const RoleSpec& role, int instances, PodWriter& pod) {
  for (const auto& [label, value] : role.node_selector) {
    pod.Set({"spec", "nodeSelector", label}, Text(value));
  }
  if (!role.tolerations.empty()) {
    Node tolerations = Node::List();
    for (const Toleration& one : role.tolerations) tolerations.items.push_back(TolerationTree(one));
    pod.Set({"spec", "tolerations"}, std::move(tolerations));
  }
  if (!role.scheduler_name.empty()) pod.Set({"spec", "schedulerName"}, Text(role.scheduler_name));
  if (!role.priority_class_name.empty()) {
    pod.Set({"spec", "priorityClassName"}, Text(role.priority_class_name));
  }
  AddResources(role.resources, instances, pod);
}

}  // namespace

Node WorkerPod(const MoEService& service, const OperatorDefaults& defaults,
               const PodIdentity& identity) {
  const RoleSpec& role = SpecOf(service, identity.role);
  PodWriter pod(role.pod_template, "worker");
  pod.Set({"apiVersion"}, Text("v1"));
  pod.Set({"kind"}, Text("Pod"));
  AddCommon(service, defaults, identity.image, pod);
  AddScheduling(role, identity.instances, pod);
  const std::string model = IsFromHub(service) ? AddFetched(service, defaults, identity.image,
                                                            ToString(identity.role), pod)
                                               : AddModel(service.spec.model.source, pod);
  pod.Set({"spec", "serviceAccountName"}, Text(WorkerAccountName(service.metadata.name)));
  pod.Set({"spec", "restartPolicy"}, Text("Always"));
  // SIGTERM starts the worker's own drain.
  pod.Set({"spec", "terminationGracePeriodSeconds"},
          Node::Integer(int64_t{service.spec.drain.timeout_seconds} + 30));
  pod.Set({"spec", "readinessGates"},
          ListOf({Object({{"conditionType", Text(kMemberCondition)}})}));
  std::vector<std::string> arguments = {
      "--role=" + std::string(ToString(identity.role)),
      "--model=" + model,
      "--device=" + DeviceName(DeviceOf(service)),
      "--service-uid=" + service.metadata.uid,
      "--listen=$(POD_IP):" + std::to_string(kGrpcPort),
      "--metrics=$(POD_IP):" + std::to_string(kProbePort),
      "--drain-seconds=" + std::to_string(service.spec.drain.timeout_seconds)};
  if (IsFromHub(service)) arguments.push_back("--commit=" + service.commit);
  if (identity.pool > 1) arguments.push_back("--pool=" + std::to_string(identity.pool));
  if (identity.instances > 1) {
    arguments.push_back("--supervise=" + std::to_string(identity.instances));
  }
  AddTrust(service, defaults, ToString(identity.role), pod, arguments);
  pod.SetOfContainer("args", Strings(arguments));
  pod.Env("POD_IP", "valueFrom", FromPod("status.podIP"));
  pod.Env("POD_UID", "valueFrom", FromPod("metadata.uid"));
  pod.Env("NODE_NAME", "valueFrom", FromPod("spec.nodeName"));
  // Otherwise the kernel chooses ports for UCX, and no NetworkPolicy could name them. A supervisor
  // gives each of its workers the next range.
  pod.Env("UCX_TCP_PORT_RANGE", "value",
          Text(std::to_string(kUcxPort) + "-" + std::to_string(kUcxPort + kUcxPorts - 1)));
  pod.Port("metrics", kProbePort);
  pod.Port("grpc", kGrpcPort);
  // Before the ports open, files of hundreds of gigabytes are mapped but not read.
  pod.SetOfContainer("startupProbe", Probe("/startup", 1, 600));
  // The service waits for the process of a hung worker if that is the only one of its role. Another
  // thread than the one that computes answers this probe. A hung worker cannot drain, so it does
  // not get the pod's grace period.
  Node live = Probe("/live", 5, 3);
  live.Add("terminationGracePeriodSeconds", Node::Integer(kHungGraceSeconds));
  pod.SetOfContainer("livenessProbe", std::move(live));
  pod.SetOfContainer("readinessProbe", Probe("/ready", 5, 1));
  // Sockets and shared memory of the instances in one pod.
  pod.Volume("sockets", "emptyDir", Node::Map(), kSocketsMount, false);
  pod.Volume("shared-memory", "emptyDir", Object({{"medium", Text("Memory")}}), "/dev/shm", false);

  if (service.spec.exchange.host_shared) ShareHost(service, defaults, identity.image, pod);

  Node out = std::move(pod).Take();
  Labels labels = LabelsOf(service, ToString(identity.role));
  labels["app.kubernetes.io/name"] = "janus-worker";
  labels[std::string(kRoleLabel)] = ToString(identity.role);
  labels[std::string(kRevisionLabel)] = identity.revision;
  if (identity.instances > 1) {
    labels[std::string(kInstancesLabel)] = std::to_string(identity.instances);
  }
  if (service.spec.exchange.host_shared) labels[std::string(kHostSharedLabel)] = "true";
  labels[std::string(kModelLabel)] = ModelLabelOf(service);
  if (UsesPools(service.spec) || identity.pool > 1) {
    labels[std::string(kPoolLabel)] = std::to_string(identity.pool);
  }
  MakeOwned(service, PodName(service.metadata.name, identity.role, identity.revision, identity.id),
            labels, out);
  return out;
}

Node GatewayTemplate(const MoEService& service, const OperatorDefaults& defaults) {
  const GatewaySpec& asked = service.spec.gateway;
  PodWriter pod(asked.pod_template, "gateway");
  AddCommon(service, defaults, defaults.gateway_image, pod);
  AddResources(asked.resources, 1, pod);
  AddGatewayRequests(pod);
  const std::string model =
      IsFromHub(service) ? AddFetched(service, defaults, defaults.fetch_image, "gateway", pod)
                         : AddModel(service.spec.model.source, pod);
  for (const auto& [label, value] : LabelsOf(service, "gateway")) {
    pod.Set({"metadata", "labels", label}, Text(value));
  }
  const auto restarted = service.metadata.annotations.find(std::string(kRestartedAtAnnotation));
  if (restarted != service.metadata.annotations.end()) {
    pod.Set({"metadata", "annotations", kRestartedAtAnnotation}, Text(restarted->second));
  }
  std::vector<std::string> arguments = {
      "--listen=0.0.0.0:" + std::to_string(kGatewayPort),
      "--model=" + model,
      "--model-name=" + service.model_name(),
      "--member=" + MembersSought(service) + ":" + std::to_string(kGrpcPort),
      "--service-uid=" + service.metadata.uid,
      "--queued-requests=" + std::to_string(asked.limits.queued_requests),
      "--open-streams=" + std::to_string(asked.limits.open_streams),
      "--request-bytes=" + std::to_string(asked.limits.request_size.value),
      "--hold-seconds=" + std::to_string(kOutageSeconds),
      "--stall-seconds=" + std::to_string(kOutageSeconds),
      "--lame-duck-seconds=" + std::to_string(kLameDuckSeconds),
      "--drain-seconds=" + std::to_string(service.spec.drain.timeout_seconds),
  };
  for (const std::string& name : service.spec.model.names) {
    arguments.push_back("--model-alias=" + name);
  }
  // As many as a service can have: a new number of pools must not replace the gateways.
  if (UsesPools(service.spec)) arguments.push_back("--pools=" + std::to_string(kMostPools));
  if (asked.api_keys_secret_ref) {
    const SecretKeyRef& keys = *asked.api_keys_secret_ref;
    pod.Volume(
        "api-keys", "secret",
        Object({{"secretName", Text(keys.name)},
                {"items", ListOf({Object({{"key", Text(keys.key)}, {"path", Text("keys")}})})}}),
        "/etc/janus/api-keys", true);
    arguments.emplace_back("--api-keys-file=/etc/janus/api-keys/keys");
  }
  AddTrust(service, defaults, "gateway", pod, arguments);
  pod.SetOfContainer("args", Strings(arguments));
  pod.Set({"spec", "terminationGracePeriodSeconds"},
          Node::Integer(int64_t{service.spec.drain.timeout_seconds} + kLameDuckSeconds + 30));
  pod.Port("http", kGatewayPort);
  pod.SetOfContainer(
      "readinessProbe",
      Object({{"httpGet", Object({{"path", Text("/health")}, {"port", Text("http")}})},
              {"periodSeconds", Node::Integer(2)},
              {"timeoutSeconds", Node::Integer(kReadinessSeconds)},
              {"failureThreshold", Node::Integer(2)}}));
  // Tests only whether it answers, with or without workers; ending it ends its streams.
  pod.SetOfContainer(
      "livenessProbe",
      Object({{"httpGet", Object({{"path", Text("/metrics")}, {"port", Text("http")}})},
              {"periodSeconds", Node::Integer(10)},
              {"timeoutSeconds", Node::Integer(10)},
              {"failureThreshold", Node::Integer(6)},
              {"terminationGracePeriodSeconds", Node::Integer(kHungGraceSeconds)}}));
  return std::move(pod).Take();
}

}  // namespace janus::control
