#include "operator/reconcile/spec/read_spec.h"

#include <algorithm>
#include <utility>

#include "operator/api/device.h"
#include "operator/api/json.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/reconcile/model/fetched_model.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pods/template_conflicts.h"
#include "operator/reconcile/pods/worker_pod.h"

namespace janus::control {
namespace {

bool IsBelow(std::string_view path, const std::string& folder) {
  if (folder == "/") return true;
  return path == folder || path.starts_with(folder + "/");
}

// Of a model that is fetched.
void TakeCommit(const Node& tree, MoEService& service) {
  if (auto fetched = FetchedFor(tree, service)) service.commit = std::move(fetched->commit);
}

std::string Joined(const FieldErrors& errors) {
  return JoinErrors(errors, kLongestMessage);
}

const std::string& NewestImage(const MoEService& service, const ReconcilerOptions& options) {
  if (!service.spec.image.empty()) return service.spec.image;
  return ComputesOn(service) == Device::kCuda ? options.worker_cuda_image : options.worker_image;
}

}  // namespace

SpecRead ReadSpec(const Node& tree) {
  ParsedService parsed = ParseMoEService(tree);
  SpecRead out;
  if (!parsed.errors.empty()) out.invalid = {"InvalidSpec", Joined(ValidateRead(tree, parsed))};
  out.service = std::move(parsed.object);
  TakeCommit(tree, out.service);
  return out;
}

Cause CheckSpec(const MoEService& service, const ReconcilerOptions& options) {
  FieldErrors errors = ValidateSchema(service);
  const std::optional<HostPathSource>& host_path = service.spec.model.source.host_path;
  const std::optional<NodeCache>& node = service.spec.model.cache.node;
  const auto allow = [&](const std::string& field, const std::string& path,
                         const std::string& other) {
    if (std::ranges::any_of(options.host_paths,
                            [&](const std::string& folder) { return IsBelow(path, folder); })) {
      return;
    }
    errors.push_back({field,
                      "is '" + path +
                          "', below none of the folders this operator allows; have its "
                          "administrator add one to hostPaths, or use another " +
                          other,
                      0});
  };
  if (errors.empty() && host_path) {
    allow("spec.model.source.hostPath.path", host_path->path, "source");
  }
  if (errors.empty() && node) allow("spec.model.cache.node.path", node->path, "cache");
  if (errors.empty() && service.spec.exchange.host_shared &&
      std::ranges::none_of(options.host_paths, [](const std::string& folder) {
        return IsBelow(kHostFolder, folder);
      })) {
    errors.push_back({"spec.exchange.hostShared",
                      "needs the folder " + std::string(kHostFolder) +
                          " of the nodes, which this operator does not allow; have its "
                          "administrator add it to hostPaths, or leave hostShared out",
                      0});
  }
  if (errors.empty() && service.spec.device == Device::kTimed && !options.timed_devices) {
    errors.push_back({"spec.device",
                      "is Timed, which this operator does not allow, since a timed device only "
                      "emulates the times of another one; have its administrator set "
                      "timedDevices.enabled, or use another device",
                      0});
  }
  if (!errors.empty()) return {"InvalidSpec", Joined(errors)};
  errors = ValidateSupported(service, options.ground);
  if (!errors.empty()) return {"NotSupported", Joined(errors)};
  errors = ValidateDevice(service);
  if (errors.empty()) errors = TemplateConflicts(service, options.defaults);
  if (errors.empty() && DeviceOf(service) == Device::kCuda && service.spec.image.empty() &&
      options.worker_cuda_image.empty()) {
    errors.push_back({"spec.image",
                      "is empty, and the operator has no GPU worker image; set it, or have the "
                      "administrator set defaults.workerCudaImage",
                      0});
  }
  if (!errors.empty()) return {"InvalidSpec", Joined(errors)};
  return {};
}

PinnedImage PinImage(const Node& tree, const MoEService& service,
                     const ReconcilerOptions& options) {
  PinnedImage out = PinnedImageOf(tree);
  const auto annotation = service.metadata.annotations.find(std::string(kRestartedAtAnnotation));
  const std::string restart =
      annotation == service.metadata.annotations.end() ? "" : annotation->second;
  const Device device = ComputesOn(service);
  if (!service.spec.image.empty() || out.image.empty() || !out.named.empty() ||
      restart != out.restarted_at || device != out.device) {
    out.image = NewestImage(service, options);
  }
  out.restarted_at = restart;
  out.named = service.spec.image;
  out.device = device;
  return out;
}

std::string ImageOfPods(const MoEService& service, const PinnedImage& pinned,
                        const ReconcilerOptions& options) {
  return ComputesOn(service) == pinned.device ? pinned.image : NewestImage(service, options);
}

std::optional<MoEService> LastServiceOf(const Node& tree, const TopologySeen* topology) {
  if (topology == nullptr) return std::nullopt;
  const std::string text(
      TextAt(topology->record, {"metadata", "annotations", kLastSpecAnnotation}));
  if (text.empty()) return std::nullopt;
  janus::Result<Node> spec = ParseJson(text, std::string(kLastSpecAnnotation));
  if (!spec.ok()) return std::nullopt;
  Node last = tree;
  SetAt(last, {"spec"}, *std::move(spec));
  ParsedService parsed = ParseMoEService(last);
  if (!parsed.errors.empty()) return std::nullopt;
  TakeCommit(tree, parsed.object);
  return std::move(parsed.object);
}

bool IsLastSpec(const Node& tree, const TopologySeen* topology) {
  const Node* const spec = tree.Find("spec");
  return topology != nullptr && spec != nullptr &&
         TextAt(topology->record, {"metadata", "annotations", kLastSpecAnnotation}) ==
             WriteJson(*spec);
}

std::string WhyAsleep(const MoEService& service) {
  if (service.spec.suspend) return "the service is suspended";
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (SpecOf(service, role).replicas == 0) {
      return "no instance serves: spec.roles." + std::string(ToString(role)) + ".replicas is 0";
    }
  }
  return "";
}

}  // namespace janus::control
