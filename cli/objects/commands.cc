#include "cli/objects/commands.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "cli/objects/describe.h"
#include "cli/objects/running_services.h"
#include "operator/api/json.h"
#include "operator/api/yaml.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/status/conditions.h"

namespace janus::cli {
namespace {

using control::Node;
using control::NodeField;

const control::CallLimits kLimits{Seconds(30), {}};
constexpr std::chrono::milliseconds kLookEvery{100};
const control::Resource kEvents{"events.k8s.io", "v1", "events", "Event"};

const std::map<std::string, const control::Resource*>& Kinds() {
  static const auto* const kinds =
      new std::map<std::string, const control::Resource*>{{"services", &control::kMoEServices},
                                                          {"pods", &control::kPods},
                                                          {"events", &kEvents},
                                                          {"topologies", &control::kTopologies},
                                                          {"deployments", &control::kDeployments},
                                                          {"scalers", &control::kRoleScalers}};
  return *kinds;
}

const control::Timeline& Time() {
  static const auto* const timeline = new control::SystemTimeline();
  return *timeline;
}

Result<std::vector<Node>> List(const RunningService& service, const control::Resource& resource) {
  control::ListOptions options;
  options.selection.namespace_ = service.key.namespace_;
  auto list = service.api->List(resource, options, kLimits);
  if (!list.ok()) return list.status();
  return std::move(list->items);
}

Result<Node> Read(const RunningService& service) {
  auto object =
      service.api->Get(control::kMoEServices, service.key, control::Subresource::kNone, kLimits);
  if (!object.ok()) return object.status();
  return *std::move(object);
}

// As kubectl does: managedFields is for machines, and is longer than the rest of the object.
void HideManagedFields(Node& object) {
  for (NodeField& field : object.fields) {
    if (field.name != "metadata") continue;
    std::erase_if(field.value.fields,
                  [](const NodeField& one) { return one.name == "managedFields"; });
  }
}

std::string Written(std::vector<Node> objects, const GetOptions& options) {
  if (!options.show_managed_fields) std::ranges::for_each(objects, HideManagedFields);
  Node list =
      control::Object({{"apiVersion", control::Text("v1")}, {"kind", control::Text("List")}});
  list.Add("items", Node::List()).items = objects;
  const Node& root = objects.size() == 1 ? objects[0] : list;
  return options.output == "json" ? WriteJsonLines(root) : WriteYaml(root);
}

// Whether the service is ready at its newest generation.
bool IsReady(const Node& service) {
  const int64_t generation = control::IntegerAt(service, {"metadata", "generation"}).value_or(0);
  for (const control::Condition& one : control::ReadConditions(service)) {
    if (one.type == "Ready") {
      return one.status == control::ConditionStatus::kTrue && one.observed_generation == generation;
    }
  }
  return false;
}

// Waits until the object is ready at its newest generation. Fails if the service cannot become
// ready.
Status Await(const RunningService& service, const control::Resource& resource,
             const control::ObjectKey& key, StopSignals& stop) {
  while (!stop.Came()) {
    const auto awaited = service.api->Get(resource, key, control::Subresource::kNone, kLimits);
    if (!awaited.ok()) return awaited.status();
    if (IsReady(*awaited)) return OkStatus();
    JANUS_ASSIGN_OR_RETURN(const Node object, Read(service));
    for (const control::Condition& one : control::ReadConditions(object)) {
      const bool refuses =
          (one.type == "Stalled" && one.status == control::ConditionStatus::kTrue) ||
          (one.type == "CapacityAvailable" && one.status == control::ConditionStatus::kFalse);
      if (refuses) return FailedPrecondition(one.reason + ": " + one.message);
    }
    pollfd fd = {stop.fd(), POLLIN, 0};
    poll(&fd, 1, static_cast<int>(kLookEvery.count()));
  }
  return Cancelled("stopped waiting; the service still applies the change");
}

// Where the requested counts go. A role in mode External takes its count from its MoERoleScaler.
struct Asked {
  std::vector<std::pair<Role, int>> scalers;
  Node spec = Node::Map();  // merged into the MoEService
};

Asked WhatToPatch(const Node& service, const ScaleOptions& options) {
  Asked out;
  for (const auto& [role, count] :
       {std::pair{Role::kAttention, options.attention}, {Role::kExperts, options.experts}}) {
    if (!count) continue;
    const std::string_view mode =
        control::TextAt(service, {"spec", "roles", ToString(role), "scaling", "mode"});
    if (mode == "External") {
      out.scalers.emplace_back(role, *count);
    } else {
      SetAt(out.spec, {"spec", "roles", ToString(role), "replicas"}, Node::Integer(*count));
    }
  }
  if (options.pools) SetAt(out.spec, {"spec", "pools"}, Node::Integer(*options.pools));
  return out;
}

Status Patch(const RunningService& service, const control::Resource& resource,
             const control::ObjectKey& key, control::Subresource subresource, const Node& patch) {
  const auto patched = service.api->Patch(resource, key, control::PatchKind::kMerge, patch,
                                          subresource, {}, kLimits);
  return patched.ok() ? OkStatus() : patched.status();
}

}  // namespace

Result<std::string> Get(const GetOptions& options) {
  const auto kind = Kinds().find(options.kind);
  if (kind == Kinds().end()) {
    std::string known;
    for (const auto& [name, resource] : Kinds()) known += (known.empty() ? "" : ", ") + name;
    return InvalidArgument("get: '" + options.kind + "' is not a kind of object; want one of " +
                           known);
  }
  if (!options.output.empty() && options.output != "yaml" && options.output != "json") {
    return InvalidArgument("-o: '" + options.output + "' is not a format; want yaml or json");
  }
  const control::Environment environment = control::ReadEnvironment();
  std::vector<Node> objects;
  if (options.name.empty() && options.kind == "services") {
    for (const RunningService& one : FindRunningServices(environment, Time())) {
      JANUS_ASSIGN_OR_RETURN(Node object, Read(one));
      objects.push_back(std::move(object));
    }
    if (objects.empty()) return NoServiceRuns();
  } else {
    JANUS_ASSIGN_OR_RETURN(const RunningService service,
                           FindRunningService(environment, Time(), options.name));
    JANUS_ASSIGN_OR_RETURN(objects, List(service, *kind->second));
  }
  if (!options.output.empty()) return Written(std::move(objects), options);
  if (objects.empty()) return "there are no " + options.kind + "\n";
  const WallTime now = Time().WallNow();
  if (options.kind == "services") return ServiceTable(objects, now);
  if (options.kind == "pods") return PodTable(objects, now);
  if (options.kind == "events") return EventTable(objects, now);
  if (options.kind == "scalers") return ScalerTable(objects, now);
  if (options.kind == "topologies") return TopologyTable(objects, now);
  return DeploymentTable(objects, now);
}

Result<std::string> Describe(const std::string& name) {
  JANUS_ASSIGN_OR_RETURN(const RunningService service,
                         FindRunningService(control::ReadEnvironment(), Time(), name));
  JANUS_ASSIGN_OR_RETURN(const Node object, Read(service));
  JANUS_ASSIGN_OR_RETURN(const std::vector<Node> pods, List(service, control::kPods));
  JANUS_ASSIGN_OR_RETURN(const std::vector<Node> events, List(service, kEvents));
  return DescribeService(object, pods, events, Time().WallNow());
}

Result<std::string> Scale(const ScaleOptions& options, StopSignals& stop) {
  if (!options.attention && !options.experts && !options.pools) {
    return InvalidArgument("scale: give at least one of --attention N, --experts N and --pools N");
  }
  JANUS_ASSIGN_OR_RETURN(const RunningService service,
                         FindRunningService(control::ReadEnvironment(), Time(), options.name));
  JANUS_ASSIGN_OR_RETURN(const Node before, Read(service));
  if (options.pools && FindAt(before, {"spec", "pools"}) == nullptr) {
    return FailedPrecondition(
        "scale: service " + service.key.name +
        " uses no pools, and its gateway would start again to use some; start it with "
        "janusctl serve --pools, or set spec.pools in its file");
  }
  const Asked asked = WhatToPatch(before, options);
  // Scalers come first: if one is refused, the service stays as it is.
  std::vector<control::ObjectKey> scalers;
  for (const auto& [role, count] : asked.scalers) {
    control::ObjectKey key{service.key.namespace_, control::RoleObjectName(service.key.name, role)};
    JANUS_RETURN_IF_ERROR(
        Patch(service, control::kRoleScalers, key, control::Subresource::kScale,
              control::Object({{"spec", control::Object({{"replicas", Node::Integer(count)}})}})));
    scalers.push_back(std::move(key));
  }
  if (!asked.spec.fields.empty()) {
    JANUS_RETURN_IF_ERROR(Patch(service, control::kMoEServices, service.key,
                                control::Subresource::kNone, asked.spec));
  }
  std::string said = service.key.name + ":";
  if (options.attention) said += " " + std::to_string(*options.attention) + " attention";
  if (options.experts) said += " " + std::to_string(*options.experts) + " experts";
  if (options.pools) said += " " + std::to_string(*options.pools) + " pools";
  if (options.wait) {
    for (const control::ObjectKey& key : scalers) {
      JANUS_RETURN_IF_ERROR(Await(service, control::kRoleScalers, key, stop));
    }
    JANUS_RETURN_IF_ERROR(Await(service, control::kMoEServices, service.key, stop));
  }
  return said + (options.wait ? ", ready\n" : "\n");
}

Result<std::string> Delete(const std::string& name) {
  JANUS_ASSIGN_OR_RETURN(const RunningService service,
                         FindRunningService(control::ReadEnvironment(), Time(), name));
  const auto deleted = service.api->Delete(control::kMoEServices, service.key, {}, kLimits);
  if (!deleted.ok()) return deleted.status();
  return service.key.name + ": deleted; its processes are ending\n";
}

}  // namespace janus::cli
