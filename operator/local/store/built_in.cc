#include "operator/local/store/built_in.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base64.h"
#include "common/check.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/local/store/structural_schema.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

// Schemas that contain only defaults.
constexpr std::string_view kDefaults = R"(
Pod:
  properties:
    spec: &pod
      properties:
        restartPolicy: {default: Always}
        dnsPolicy: {default: ClusterFirst}
        schedulerName: {default: default-scheduler}
        terminationGracePeriodSeconds: {default: 30}
        securityContext: {default: {}}
        containers: &containers
          items:
            properties:
              terminationMessagePath: {default: /dev/termination-log}
              terminationMessagePolicy: {default: File}
              resources: {default: {}}
              ports: {items: {properties: {protocol: {default: TCP}}}}
              env:
                items:
                  properties:
                    valueFrom: {properties: {fieldRef: {properties: {apiVersion: {default: v1}}}}}
              livenessProbe: &probe
                properties:
                  timeoutSeconds: {default: 1}
                  periodSeconds: {default: 10}
                  successThreshold: {default: 1}
                  failureThreshold: {default: 3}
                  httpGet: {properties: {path: {default: /}, scheme: {default: HTTP}}}
              readinessProbe: *probe
              startupProbe: *probe
        initContainers: *containers
        volumes:
          items:
            properties:
              configMap: &files {properties: {defaultMode: {default: 420}}}
              secret: *files
              projected: *files
              downwardAPI: *files
              hostPath: {properties: {type: {default: ''}}}
Deployment:
  properties:
    spec:
      properties:
        replicas: {default: 1}
        revisionHistoryLimit: {default: 10}
        progressDeadlineSeconds: {default: 600}
        strategy: {default: {}, properties: {type: {default: RollingUpdate}}}
        template: {properties: {spec: *pod}}
Job:
  properties:
    spec:
      properties:
        backoffLimit: {default: 6}
        completionMode: {default: NonIndexed}
        completions: {default: 1}
        manualSelector: {default: false}
        parallelism: {default: 1}
        podReplacementPolicy: {default: TerminatingOrFailed}
        suspend: {default: false}
        template: {properties: {spec: *pod}}
Secret:
  properties:
    type: {default: Opaque}
Service:
  properties:
    spec:
      default: {}
      properties:
        type: {default: ClusterIP}
        sessionAffinity: {default: None}
        internalTrafficPolicy: {default: Cluster}
        ipFamilyPolicy: {default: SingleStack}
        ipFamilies: {default: [IPv4]}
        ports: {items: {properties: {protocol: {default: TCP}}}}
)";

void AddDefaults(std::string_view kind, Node& object) {
  static const Node all = [] {
    Result<Node> read = ParseYaml(kDefaults, "defaults");
    JANUS_CHECK(read.ok(), read.status().ToString());
    return *std::move(read);
  }();
  SetDefaults(*all.Find(kind), object);
}

// "registry:5000/name", "name:latest": the content of such a name may change, so it is always
// pulled.
bool IsMovingImage(std::string_view image) {
  if (image.find('@') != image.npos) return false;
  const size_t colon = image.rfind(':');
  const size_t slash = image.rfind('/');
  const bool has_tag = colon != image.npos && (slash == image.npos || colon > slash);
  return !has_tag || image.substr(colon + 1) == "latest";
}

void SetPullPolicy(Node& container) {
  if (container.Find("imagePullPolicy") != nullptr) return;
  const bool moves = IsMovingImage(TextAt(container, {"image"}));
  PutField(container, "imagePullPolicy", Node::String(moves ? "Always" : "IfNotPresent"));
}

// A container with a limit but no request requests its limit.
void SetRequests(Node& container) {
  const Node* const limits = FindAt(container, {"resources", "limits"});
  if (limits == nullptr) return;
  const Node asked = *limits;
  for (const NodeField& limit : asked.fields) {
    if (FindAt(container, {"resources", "requests", limit.name}) != nullptr) continue;
    SetAt(container, {"resources", "requests", limit.name}, limit.value);
  }
}

// For a pod or a pod template.
void ForEachContainer(Node& pod, void (*act)(Node&)) {
  Node* const spec = FindMutable(pod, "spec");
  if (spec == nullptr) return;
  for (const std::string_view list : {"containers", "initContainers"}) {
    Node* const containers = FindMutable(*spec, list);
    if (containers == nullptr) continue;
    for (Node& container : containers->items) act(container);
  }
}

void CompletePod(Node& object, const Node* /*before*/) {
  AddDefaults("Pod", object);
  ForEachContainer(object, SetPullPolicy);
  // For pods only, not for templates.
  ForEachContainer(object, SetRequests);
  if (FindAt(object, {"spec"}) != nullptr &&
      FindAt(object, {"spec", "enableServiceLinks"}) == nullptr) {
    SetAt(object, {"spec", "enableServiceLinks"}, Node::Bool(true));
  }
}

void CompleteTemplate(std::string_view kind, Node& object) {
  AddDefaults(kind, object);
  Node* const spec = FindMutable(object, "spec");
  Node* const pod = spec == nullptr ? nullptr : FindMutable(*spec, "template");
  if (pod != nullptr) ForEachContainer(*pod, SetPullPolicy);
}

void CompleteDeployment(Node& object, const Node* /*before*/) {
  CompleteTemplate("Deployment", object);
  if (TextAt(object, {"spec", "strategy", "type"}) != "RollingUpdate") return;
  for (const std::string_view field : {"maxSurge", "maxUnavailable"}) {
    if (FindAt(object, {"spec", "strategy", "rollingUpdate", field}) != nullptr) continue;
    SetAt(object, {"spec", "strategy", "rollingUpdate", field}, Node::String("25%"));
  }
}

void CompleteJob(Node& object, const Node* /*before*/) {
  CompleteTemplate("Job", object);
}

void CompleteService(Node& object, const Node* before) {
  AddDefaults("Service", object);
  Node& spec = *FindMutable(object, "spec");
  if (Node* const ports = FindMutable(spec, "ports")) {
    for (Node& port : ports->items) {
      const Node* const number = port.Find("port");
      if (number != nullptr && port.Find("targetPort") == nullptr) {
        PutField(port, "targetPort", Node(*number));
      }
    }
  }
  // An update without the addresses keeps them.
  for (const std::string_view field : {"clusterIP", "clusterIPs"}) {
    const Node* const was = before == nullptr ? nullptr : FindAt(*before, {"spec", field});
    if (was != nullptr && spec.Find(field) == nullptr) PutField(spec, field, *was);
  }
  const Node* const address = spec.Find("clusterIP");
  if (address != nullptr && spec.Find("clusterIPs") == nullptr) {
    Node list = Node::List();
    list.items.push_back(*address);
    PutField(spec, "clusterIPs", std::move(list));
  }
}

void CompleteSecret(Node& object, const Node* /*before*/) {
  AddDefaults("Secret", object);
  const Node* const texts = object.Find("stringData");
  if (texts == nullptr) return;
  const Node written = *texts;
  RemoveField(object, "stringData");
  for (const NodeField& text : written.fields) {
    SetAt(object, {"data", text.name}, Node::String(EncodeBase64(text.value.text)));
  }
}

bool IsSameAt(const Node& a, const Node& b, FieldPath path) {
  const Node* const in_a = FindAt(a, path);
  const Node* const in_b = FindAt(b, path);
  return in_a == nullptr || in_b == nullptr ? in_a == in_b : *in_a == *in_b;
}

void MayNotChange(const Node& object, const Node& before, FieldPath path, FieldErrors& errors) {
  if (IsSameAt(object, before, path)) return;
  std::string text;
  for (const std::string_view step : path) text += (text.empty() ? "" : ".") + std::string(step);
  errors.push_back({text, "field is immutable", 0});
}

// The path of a list's entry.
std::string Item(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

// Reports entries of `list` with the same text in `field`. `seen`: texts of earlier lists.
void JudgeTexts(const Node* list, const std::string& path, std::string_view field,
                std::set<std::string_view>& seen, FieldErrors& errors) {
  if (list == nullptr) return;
  for (size_t i = 0; i < list->items.size(); ++i) {
    const std::string_view text = TextAt(list->items[i], {field});
    if (text.empty() || seen.insert(text).second) continue;
    errors.push_back({Item(path, i) + "." + std::string(field),
                      "another one is '" + std::string(text.substr(0, 64)) + "' as well", 0});
  }
}

// Reports duplicate entries of a pod. `path`: "spec", or a template's.
void JudgePodSpec(const Node* spec, const std::string& path, FieldErrors& errors) {
  if (spec == nullptr) return;
  std::set<std::string_view> names;
  std::set<std::string_view> volumes;
  JudgeTexts(spec->Find("volumes"), path + ".volumes", "name", volumes, errors);
  for (const std::string_view list : {"containers", "initContainers"}) {
    const Node* const containers = spec->Find(list);
    const std::string place = path + "." + std::string(list);
    JudgeTexts(containers, place, "name", names, errors);
    for (size_t i = 0; containers != nullptr && i < containers->items.size(); ++i) {
      std::set<std::string_view> mounts;
      JudgeTexts(containers->items[i].Find("volumeMounts"), Item(place, i) + ".volumeMounts",
                 "mountPath", mounts, errors);
    }
  }
}

// The immutable part of a pod. It excludes nodeName, because an update binds pods here.
Node FixedPart(Node pod) {
  ForEachContainer(pod, [](Node& container) { RemoveField(container, "image"); });
  Node* const spec = FindMutable(pod, "spec");
  if (spec == nullptr) return Node::Map();
  for (const std::string_view field : {"activeDeadlineSeconds", "tolerations", "nodeName"}) {
    RemoveField(*spec, field);
  }
  return *spec;
}

FieldErrors JudgePod(const Node& object, const Node* before) {
  FieldErrors errors;
  const Node* const containers = FindAt(object, {"spec", "containers"});
  if (containers == nullptr || containers->items.empty()) {
    errors.push_back({"spec.containers", "is required", 0});
  }
  JudgePodSpec(object.Find("spec"), "spec", errors);
  if (before != nullptr && FixedPart(object) != FixedPart(*before)) {
    errors.push_back({"spec",
                      "pod updates may not change fields other than the containers' images, "
                      "activeDeadlineSeconds and tolerations",
                      0});
  }
  return errors;
}

constexpr const char* kTemplate = "spec.template.spec";

FieldErrors JudgeDeployment(const Node& object, const Node* before) {
  FieldErrors errors;
  JudgePodSpec(FindAt(object, {"spec", "template", "spec"}), kTemplate, errors);
  if (before != nullptr) MayNotChange(object, *before, {"spec", "selector"}, errors);
  const Node* const wanted = FindAt(object, {"spec", "selector", "matchLabels"});
  if (FindAt(object, {"spec", "selector"}) == nullptr) {
    errors.push_back({"spec.selector", "is required", 0});
  }
  for (const NodeField& label : wanted == nullptr ? std::vector<NodeField>() : wanted->fields) {
    const Node* const has = FindAt(object, {"spec", "template", "metadata", "labels", label.name});
    if (has != nullptr && *has == label.value) continue;
    errors.push_back({"spec.template.metadata.labels", "the selector does not match them", 0});
    break;
  }
  return errors;
}

FieldErrors JudgeJob(const Node& object, const Node* before) {
  FieldErrors errors;
  JudgePodSpec(FindAt(object, {"spec", "template", "spec"}), kTemplate, errors);
  if (before == nullptr) return errors;
  for (const std::string_view field : {"completions", "selector", "template"}) {
    MayNotChange(object, *before, {"spec", field}, errors);
  }
  return errors;
}

void JudgePorts(const Node* ports, FieldErrors& errors) {
  const std::string path = "spec.ports";
  std::set<std::string_view> names;
  std::set<std::pair<int64_t, std::string_view>> seen;
  JudgeTexts(ports, path, "name", names, errors);
  for (size_t i = 0; ports != nullptr && i < ports->items.size(); ++i) {
    const Node& port = ports->items[i];
    if (ports->items.size() > 1 && TextAt(port, {"name"}).empty()) {
      errors.push_back({Item(path, i) + ".name", "is required", 0});
    }
    const int64_t number = IntegerAt(port, {"port"}).value_or(0);
    if (seen.emplace(number, TextAt(port, {"protocol"})).second) continue;
    errors.push_back({Item(path, i), "another one has its number and protocol", 0});
  }
}

FieldErrors JudgeService(const Node& object, const Node* before) {
  FieldErrors errors;
  JudgePorts(FindAt(object, {"spec", "ports"}), errors);
  if (before == nullptr || TextAt(*before, {"spec", "clusterIP"}).empty()) return errors;
  MayNotChange(object, *before, {"spec", "clusterIPs"}, errors);
  return errors;
}

// Checks `immutable` of a Secret or ConfigMap.
void JudgeImmutable(const Node& object, const Node& before, FieldErrors& errors) {
  const Node* const fixed = before.Find("immutable");
  if (fixed == nullptr || !fixed->boolean) return;
  for (const std::string_view field : {"immutable", "data", "binaryData"}) {
    MayNotChange(object, before, {field}, errors);
  }
}

FieldErrors JudgeConfigMap(const Node& object, const Node* before) {
  FieldErrors errors;
  if (before != nullptr) JudgeImmutable(object, *before, errors);
  return errors;
}

FieldErrors JudgeSecret(const Node& object, const Node* before) {
  FieldErrors errors;
  if (before == nullptr) return errors;
  MayNotChange(object, *before, {"type"}, errors);
  JudgeImmutable(object, *before, errors);
  return errors;
}

}  // namespace

KindRules BuiltInRules(std::string_view kind) {
  if (kind == "ConfigMap") return {nullptr, JudgeConfigMap};
  if (kind == "Secret") return {CompleteSecret, JudgeSecret};
  if (kind == "Service") return {CompleteService, JudgeService};
  if (kind == "Pod") return {CompletePod, JudgePod};
  if (kind == "Deployment") return {CompleteDeployment, JudgeDeployment};
  if (kind == "Job") return {CompleteJob, JudgeJob};
  return {};
}

}  // namespace janus::control
