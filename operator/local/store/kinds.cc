#include "operator/local/store/kinds.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "operator/api/hardware_profile.h"
#include "operator/api/json.h"
#include "operator/api/moe_topology.h"
#include "operator/api/parse.h"
#include "operator/api/role_scaler.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/local/store/crd_texts.h"

namespace janus::control {
namespace {

// The rules of operator/api for our kinds: reading, the object alone, and changes of it.
template <auto kParse>
FieldErrors JudgeBy(const Node& object, const Node* before) {
  const auto parsed = kParse(object);
  FieldErrors errors = ValidateRead(object, parsed);
  if (!parsed.errors.empty()) return errors;
  if constexpr (requires { ValidateUpdate(parsed.object, parsed.object); }) {
    if (before == nullptr) return errors;
    const auto was = kParse(*before);
    if (!was.errors.empty()) return errors;
    const FieldErrors changes = ValidateUpdate(was.object, parsed.object);
    errors.insert(errors.end(), changes.begin(), changes.end());
  }
  return errors;
}

const StructuralSchema* SchemaOf(std::string_view crd, std::string_view file) {
  Result<StructuralSchema> schema = StructuralSchema::FromCrd(crd, file);
  JANUS_CHECK(schema.ok(), schema.status().ToString());
  return new StructuralSchema(*std::move(schema));  // lives as long as the program
}

Kind Ours(std::string plural, std::string kind, std::string_view crd,
          FieldErrors (*judge)(const Node&, const Node*)) {
  Kind out;
  out.schema = SchemaOf(crd, plural);
  out.resource = {"serving.janus.dev", "v1alpha1", std::move(plural), std::move(kind), true};
  out.has_status = true;
  out.counts_generation = true;
  out.needs_version = true;
  out.rules.judge = judge;
  return out;
}

Node Json(std::string_view text) {
  Result<Node> read = ParseJson(text, "kinds");
  JANUS_CHECK(read.ok(), read.status().ToString());
  return *std::move(read);
}

Kind BuiltIn(std::string group, std::string version, std::string plural, std::string kind) {
  Kind out;
  out.resource = {std::move(group), std::move(version), std::move(plural), std::move(kind), true};
  out.rules = BuiltInRules(out.resource.kind);
  return out;
}

// A kind with a status subresource and a counted spec.
Kind Controlled(std::string group, std::string version, std::string plural, std::string kind,
                std::string_view first_status) {
  Kind out = BuiltIn(std::move(group), std::move(version), std::move(plural), std::move(kind));
  out.has_status = true;
  out.counts_generation = true;
  out.first_status = Json(first_status);
  return out;
}

std::vector<Kind> MakeKinds() {
  std::vector<Kind> kinds;
  kinds.push_back(Ours("moeservices", "MoEService", kMoEServiceCrd, JudgeBy<ParseMoEService>));
  kinds.push_back(
      Ours("moerolescalers", "MoERoleScaler", kRoleScalerCrd, JudgeBy<ParseRoleScaler>));
  kinds.back().scale_selector_in = "status";
  kinds.push_back(Ours("moetopologies", "MoETopology", kTopologyCrd, JudgeBy<ParseMoETopology>));
  kinds.push_back(Ours("hardwareprofiles", "HardwareProfile", kHardwareProfileCrd,
                       JudgeBy<ParseHardwareProfile>));
  kinds.back().resource.is_namespaced = false;
  kinds.back().has_status = false;

  kinds.push_back(BuiltIn("", "v1", "namespaces", "Namespace"));
  kinds.back().resource.is_namespaced = false;
  kinds.back().has_status = true;
  kinds.back().name_rule = NameRule::kLabel;
  kinds.back().first_status = Json(R"({"phase":"Active"})");
  kinds.back().selectable_fields = {"status.phase"};
  kinds.push_back(BuiltIn("", "v1", "nodes", "Node"));
  kinds.back().resource.is_namespaced = false;
  kinds.back().has_status = true;
  kinds.back().selectable_fields = {"spec.unschedulable"};
  kinds.push_back(Controlled("", "v1", "pods", "Pod", R"({"phase":"Pending"})"));
  kinds.back().goes_gracefully = true;
  kinds.back().is_labelled_with_status = true;
  kinds.back().selectable_fields = {
      "spec.nodeName",    "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
      "spec.hostNetwork", "status.phase",       "status.podIP",       "status.nominatedNodeName"};
  kinds.push_back(BuiltIn("", "v1", "services", "Service"));
  kinds.back().has_status = true;
  kinds.back().name_rule = NameRule::kLabel;
  kinds.back().first_status = Json(R"({"loadBalancer":{}})");
  kinds.back().has_address = true;
  kinds.back().selectable_fields = {"spec.clusterIP", "spec.type"};
  kinds.push_back(BuiltIn("", "v1", "configmaps", "ConfigMap"));
  kinds.push_back(BuiltIn("", "v1", "serviceaccounts", "ServiceAccount"));
  kinds.push_back(BuiltIn("", "v1", "secrets", "Secret"));
  kinds.back().selectable_fields = {"type"};
  kinds.push_back(BuiltIn("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"));
  kinds.back().has_status = true;
  kinds.push_back(BuiltIn("coordination.k8s.io", "v1", "leases", "Lease"));
  kinds.back().needs_version = true;
  kinds.push_back(BuiltIn("events.k8s.io", "v1", "events", "Event"));
  kinds.back().time_to_live = Seconds(3600);  // kube-apiserver's --event-ttl
  kinds.push_back(Controlled("apps", "v1", "deployments", "Deployment", "{}"));
  kinds.back().scale_selector_in = "spec";
  kinds.push_back(
      BuiltIn("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"));
  kinds.push_back(Controlled("batch", "v1", "jobs", "Job", "{}"));
  kinds.push_back(Controlled("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget",
                             R"({"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,)"
                             R"("expectedPods":0})"));
  kinds.back().needs_version = true;
  kinds.push_back(BuiltIn("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"));
  kinds.back().counts_generation = true;
  return kinds;
}

}  // namespace

std::span<const Kind> Kinds() {
  // Never destroyed, like the schemas that it points to.
  static const std::vector<Kind>& kinds = *new std::vector<Kind>(MakeKinds());
  return kinds;
}

const Kind* FindKind(const Resource& resource) {
  for (const Kind& kind : Kinds()) {
    const Resource& one = kind.resource;
    if (one.group == resource.group && one.version == resource.version &&
        one.plural == resource.plural) {
      return &kind;
    }
  }
  return nullptr;
}

const Kind* FindKind(std::string_view api_version, std::string_view kind) {
  for (const Kind& one : Kinds()) {
    if (one.resource.kind == kind && one.resource.ApiVersion() == api_version) return &one;
  }
  return nullptr;
}

}  // namespace janus::control
