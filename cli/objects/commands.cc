#include "cli/objects/commands.h"

#include <poll.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "cli/objects/describe.h"
#include "cli/objects/running_services.h"
#include "operator/api/json.h"
#include "operator/api/yaml.h"
#include "operator/reconcile/conditions.h"
#include "operator/reconcile/names.h"
#include "operator/reconcile/trees.h"

namespace janus::cli {
namespace {

using control::Node;

const control::CallLimits kLimits{Seconds(30), {}};
constexpr std::chrono::milliseconds kLookEvery{100};
const control::Resource kEvents{"events.k8s.io", "v1", "events", "Event"};

const std::map<std::string, const control::Resource*>& Kinds() {
  static const auto* const kinds =
      new std::map<std::string, const control::Resource*>{{"services", &control::kMoEServices},
                                                          {"pods", &control::kPods},
                                                          {"events", &kEvents},
                                                          {"topologies", &control::kTopologies},
                                                          {"deployments", &control::kDeployments}};
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

std::string Written(const std::vector<Node>& objects, const std::string& output) {
  Node list =
      control::Object({{"apiVersion", control::Text("v1")}, {"kind", control::Text("List")}});
  list.Add("items", Node::List()).items = objects;
  const Node& root = objects.size() == 1 ? objects[0] : list;
  return output == "json" ? WriteJson(root) + "\n" : WriteYaml(root);
}

// Whether all of the newest generation is ready.
bool IsReady(const Node& service) {
  const int64_t generation = control::IntegerAt(service, {"metadata", "generation"}).value_or(0);
  for (const control::Condition& one : control::ReadConditions(service)) {
    if (one.type == "Ready") {
      return one.status == control::ConditionStatus::kTrue && one.observed_generation == generation;
    }
  }
  return false;
}

Status AwaitReady(const RunningService& service, StopSignals& stop) {
  while (!stop.Came()) {
    JANUS_ASSIGN_OR_RETURN(const Node object, Read(service));
    if (IsReady(object)) return OkStatus();
    for (const control::Condition& one : control::ReadConditions(object)) {
      const bool refuses =
          (one.type == "Stalled" && one.status == control::ConditionStatus::kTrue) ||
          (one.type == "CapacityAvailable" && one.status == control::ConditionStatus::kFalse);
      if (refuses) return FailedPrecondition(one.reason + ": " + one.message);
    }
    pollfd fd = {stop.fd(), POLLIN, 0};
    poll(&fd, 1, static_cast<int>(kLookEvery.count()));
  }
  return Cancelled("stopped waiting; the service goes on");
}

}  // namespace

Result<std::string> Get(const GetOptions& options) {
  const auto kind = Kinds().find(options.kind);
  if (kind == Kinds().end()) {
    std::string known;
    for (const auto& [name, resource] : Kinds()) known += (known.empty() ? "" : ", ") + name;
    return InvalidArgument("get: '" + options.kind + "' is none of " + known);
  }
  if (!options.output.empty() && options.output != "yaml" && options.output != "json") {
    return InvalidArgument("-o: '" + options.output + "' is neither yaml nor json");
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
  if (!options.output.empty()) return Written(objects, options.output);
  const WallTime now = Time().WallNow();
  if (options.kind == "services") return ServiceTable(objects, now);
  if (options.kind == "pods") return PodTable(objects, now);
  if (options.kind == "events") return EventTable(objects, now);
  return Written(objects, "yaml");
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
  if (!options.attention && !options.experts) {
    return InvalidArgument("scale: want --attention N, --experts N or both");
  }
  JANUS_ASSIGN_OR_RETURN(const RunningService service,
                         FindRunningService(control::ReadEnvironment(), Time(), options.name));
  Node patch = Node::Map();
  std::string said = service.key.name + ":";
  const auto set = [&](std::string_view role, const std::optional<int>& count) {
    if (!count) return;
    SetAt(patch, {"spec", "roles", role, "replicas"}, Node::Integer(*count));
    said += " " + std::to_string(*count) + " " + std::string(role);
  };
  set("attention", options.attention);
  set("experts", options.experts);
  const auto patched =
      service.api->Patch(control::kMoEServices, service.key, control::PatchKind::kMerge, patch,
                         control::Subresource::kNone, {}, kLimits);
  if (!patched.ok()) return patched.status();
  if (options.wait) JANUS_RETURN_IF_ERROR(AwaitReady(service, stop));
  return said + (options.wait ? ", ready\n" : "\n");
}

Result<std::string> Delete(const std::string& name) {
  JANUS_ASSIGN_OR_RETURN(const RunningService service,
                         FindRunningService(control::ReadEnvironment(), Time(), name));
  const auto deleted = service.api->Delete(control::kMoEServices, service.key, {}, kLimits);
  if (!deleted.ok()) return deleted.status();
  return service.key.name + ": deleted; its processes end\n";
}

}  // namespace janus::cli
