#include "operator/api/device.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "operator/api/enums.h"
#include "operator/api/quantity.h"

namespace janus::control {
namespace {

// True for resources outside Kubernetes' domain; its own have that domain or none.
bool IsExtended(std::string_view resource) {
  const size_t slash = resource.find('/');
  return slash != std::string_view::npos && !resource.substr(0, slash).ends_with("kubernetes.io");
}

// True for network devices, by the names that device plugins use.
bool IsOfTheNetwork(std::string_view resource) {
  constexpr std::array<std::string_view, 8> kParts = {"rdma", "hca",     "roce", "sriov",
                                                      "mlnx", "hostdev", "efa",  "infiniband"};
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return resource.find(part) != std::string_view::npos;
  });
}

const Node* FindIn(const Node* map, std::string_view field) {
  return map == nullptr ? nullptr : map->Find(field);
}

// Resources of the podTemplate's container "worker"; null: not given.
const Node* TemplateResources(const RoleSpec& role) {
  if (!role.pod_template) return nullptr;
  const Node* const containers = FindIn(role.pod_template->Find("spec"), "containers");
  if (containers == nullptr) return nullptr;
  for (const Node& container : containers->items) {
    const Node* const name = container.Find("name");
    if (name != nullptr && name->text == "worker") return container.Find("resources");
  }
  return nullptr;
}

// As in the pod: the typed field overrides the template.
std::map<std::string, Quantity> Merged(std::map<std::string, Quantity> typed, const RoleSpec& role,
                                       std::string_view field) {
  const Node* const of_template = FindIn(TemplateResources(role), field);
  if (of_template == nullptr) return typed;
  for (const NodeField& one : of_template->fields) {
    const Result<Quantity> quantity = ParseQuantity(one.value.text);
    if (quantity.ok()) typed.emplace(one.name, *quantity);
  }
  return typed;
}

bool HasClaims(const RoleSpec& role) {
  const Node* const claims = FindIn(TemplateResources(role), "claims");
  return claims != nullptr && !claims->items.empty();
}

struct GpusAsked {
  std::string role;  // "spec.roles.experts"
  int64_t count = 0;
  std::string resources = {};  // names: "nvidia.com/gpu"
  std::string requested = {};  // one without a limit, which every API server refuses
  bool has_other = false;      // devices with names that we do not know
};

GpusAsked GpusOf(const RoleSpec& role, std::string_view name) {
  GpusAsked out{.role = "spec.roles." + std::string(name), .has_other = HasClaims(role)};
  const std::map<std::string, Quantity> limits = Merged(role.resources.limits, role, "limits");
  for (const auto& [resource, quantity] : limits) {
    if (quantity.value <= 0) continue;
    if (IsGpu(resource)) {
      out.resources += (out.count == 0 ? "" : ", ") + resource;
      out.count += quantity.value;
    } else {
      out.has_other |= IsExtended(resource) && !IsOfTheNetwork(resource);
    }
  }
  for (const auto& [resource, quantity] : Merged(role.resources.requests, role, "requests")) {
    const auto limit = limits.find(resource);
    const bool is_limited = limit != limits.end() && limit->second.value > 0;
    if (IsGpu(resource) && quantity.value > 0 && !is_limited) {
      out.requested = resource;
    }
  }
  return out;
}

std::array<GpusAsked, 2> GpusOf(const RolesSpec& roles) {
  return {GpusOf(roles.attention, "attention"), GpusOf(roles.experts, "experts")};
}

// What is wrong with a role's devices; empty: nothing.
std::string WhyRefused(const GpusAsked& asked, const GpusAsked& other, bool is_told) {
  if (asked.count > 1) {
    return "has " + std::to_string(asked.count) + " GPUs (" + asked.resources +
           "), and a worker computes on one; set it to 1, and replicas to the number of instances";
  }
  if (!asked.requested.empty()) {
    return "has no " + asked.requested +
           " but resources.requests has it; Kubernetes allocates devices by limits, so add " +
           asked.requested + ": 1 here";
  }
  const bool lacks = asked.count == 0 && (is_told ? !asked.has_other : other.count > 0);
  if (!lacks) return "";
  return "has no GPU, and " +
         (is_told ? "spec.device is CUDA" : other.role + " has " + other.resources) +
         "; add nvidia.com/gpu: 1, or a slice of one as nvidia.com/mig-1g.10gb, or set "
         "spec.device: CPU";
}

}  // namespace

bool IsGpu(std::string_view resource) {
  return resource == "nvidia.com/gpu" || resource.starts_with("nvidia.com/gpu.") ||
         resource.starts_with("nvidia.com/mig-");
}

Device DeviceOf(const MoEServiceSpec& spec) {
  if (spec.device != Device::kAuto) return spec.device;
  const auto [attention, experts] = GpusOf(spec.roles);
  return attention.count > 0 && experts.count > 0 ? Device::kCuda : Device::kCpu;
}

Device ComputesOn(const MoEService& service) {
  return DeviceOf(service) == Device::kCuda ? Device::kCuda : Device::kCpu;
}

FieldErrors ValidateDevice(const MoEService& service) {
  FieldErrors out;
  if (service.spec.device == Device::kCpu || service.spec.device == Device::kTimed) return out;
  const std::array<GpusAsked, 2> roles = GpusOf(service.spec.roles);
  for (size_t i = 0; i < roles.size(); ++i) {
    const std::string why =
        WhyRefused(roles[i], roles[1 - i], service.spec.device == Device::kCuda);
    if (!why.empty()) out.push_back({roles[i].role + ".resources.limits", why, 0});
  }
  return out;
}

}  // namespace janus::control
