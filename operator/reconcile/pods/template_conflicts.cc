#include "operator/reconcile/pods/template_conflicts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

// Which field to use instead, by the end of the path.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kInstead = {{
    {".image", "; workers have spec.image, gateways the image that the chart names"},
    {".terminationGracePeriodSeconds", "; it follows from spec.drain.timeoutSeconds"},
    {".serviceAccountName", "; each service has its own account"},
    {".restartPolicy", "; a container that ends is started again"},
}};

FieldError Overwritten(std::string path) {
  std::string message = "is set by the operator and would be ignored: remove it";
  for (const auto& [end, instead] : kInstead) {
    if (path.ends_with(end)) message += instead;
  }
  return {std::move(path), std::move(message), 0};
}

bool HasName(const Node& item) {
  return item.kind == Node::Kind::kMap && item.Find("name") != nullptr;
}

void Compare(const Node& given, const Node& made, const std::string& path, FieldErrors& out) {
  if (given.kind == Node::Kind::kNull) return;
  if (given.kind == Node::Kind::kMap && made.kind == Node::Kind::kMap) {
    for (const NodeField& field : given.fields) {
      const Node* const there = made.Find(field.name);
      const std::string below = path + "." + field.name;
      if (there == nullptr) {
        out.push_back(Overwritten(below));
      } else {
        Compare(field.value, *there, below, out);
      }
    }
    return;
  }
  // Our items are appended to a list of the user's; items with a name may be changed in part.
  const bool is_longer = given.kind == Node::Kind::kList && made.kind == Node::Kind::kList &&
                         given.items.size() <= made.items.size();
  const bool is_named = is_longer && !given.items.empty() && HasName(given.items[0]);
  if (is_named) {
    for (size_t i = 0; i < given.items.size(); ++i) {
      Compare(given.items[i], made.items[i], path + "[" + std::to_string(i) + "]", out);
    }
    return;
  }
  const bool is_kept = is_longer
                           ? std::equal(given.items.begin(), given.items.end(), made.items.begin())
                           : given == made;
  if (!is_kept) out.push_back(Overwritten(path));
}

}  // namespace

FieldErrors TemplateConflicts(const MoEService& given, const OperatorDefaults& defaults) {
  FieldErrors out;
  const RolesSpec& roles = given.spec.roles;
  if (!roles.attention.pod_template && !roles.experts.pod_template &&
      !given.spec.gateway.pod_template) {
    return out;
  }
  // The user's fields override the template.
  MoEService service = given;
  service.spec.image_pull_secrets.clear();
  service.spec.gateway.resources = {};
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    RoleSpec& spec = SpecOf(service, role);
    spec.node_selector.clear();
    spec.tolerations.clear();
    spec.scheduler_name.clear();
    spec.priority_class_name.clear();
    spec.resources = {};
    if (!spec.pod_template) continue;
    const PodIdentity identity{role, "", 1, service.spec.image};
    const std::string path = "spec.roles." + std::string(ToString(role)) + ".podTemplate";
    Compare(*spec.pod_template, WorkerPod(service, defaults, identity), path, out);
    // The first is set when pods become members, and removed before they leave; the others on some
    // pods only.
    for (const std::string_view label :
         {kMemberLabel, kInstancesLabel, kHostSharedLabel, kPoolLabel}) {
      if (FindAt(*spec.pod_template, {"metadata", "labels", label}) != nullptr) {
        out.push_back(Overwritten(path + ".metadata.labels." + std::string(label)));
      }
    }
  }
  if (const std::optional<Node>& asked = service.spec.gateway.pod_template) {
    Compare(*asked, GatewayTemplate(service, defaults), "spec.gateway.podTemplate", out);
  }
  return out;
}

}  // namespace janus::control
