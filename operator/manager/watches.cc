#include "operator/manager/watches.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {
namespace {

constexpr std::string_view kByNode = "node";

std::vector<ObjectIndex> IndexesOf(const Resource& resource) {
  if (&resource == &kNodes || &resource == &kHardwareProfiles) return {};
  std::vector<ObjectIndex> out = ServiceIndex(resource);
  if (&resource != &kPods) return out;
  out.push_back({std::string(kByNode), [](const Node& pod) -> std::vector<std::string> {
                   const std::string_view node = TextAt(pod, {"spec", "nodeName"});
                   if (node.empty()) return {};
                   return {std::string(node)};
                 }});
  return out;
}

// Namespaces with an informer each; "" is all namespaces.
std::vector<std::string> NamespacesOf(const Resource& resource,
                                      const std::vector<std::string>& watched) {
  if (watched.empty() || !resource.is_namespaced) return {""};
  return watched;
}

bool IsOfCluster(const Resource& resource) {
  return !resource.is_namespaced;
}

}  // namespace

int CountWatches(const std::vector<std::string>& namespaces, bool reads_nodes) {
  size_t count = 0;
  for (const KeptKind& kept : KeptKinds()) {
    if (!reads_nodes && IsOfCluster(*kept.resource)) continue;
    count += NamespacesOf(*kept.resource, namespaces).size();
  }
  return static_cast<int>(count);
}

Watches::Watches(ObjectApi& api, const Timeline& timeline, const WatchesOptions& options,
                 WakeKey wake, const std::function<void()>& on_listed)
    : wake_(std::move(wake)) {
  for (const KeptKind& kept : KeptKinds()) {
    const Resource& resource = *kept.resource;
    const FieldFilter filter(kept.fields);
    Watched watched{&resource, {}, nullptr, nullptr};
    if (!options.reads_nodes && IsOfCluster(resource)) {
      watched.nothing = std::make_unique<ObjectStore>(ObjectStoreOptions{});
      watched_.push_back(std::move(watched));
      continue;
    }
    const std::vector<std::string> namespaces = NamespacesOf(resource, options.namespaces);
    std::vector<ReflectorOptions> parts;
    for (const std::string& ns : namespaces) {
      ReflectorOptions part;
      part.selection.namespace_ = ns;
      if (kept.is_labelled) part.selection.label_selector = std::string(kServiceLabel);
      part.keep = filter;
      part.on_listed = on_listed;
      if (options.registry != nullptr) {
        // With a single namespace the metrics have the same labels as with all.
        part.metrics =
            watched.metrics
                .emplace_back(std::make_unique<ReflectorMetrics>(*options.registry, resource.plural,
                                                                 namespaces.size() == 1 ? "" : ns))
                .get();
      }
      parts.push_back(std::move(part));
    }
    ObjectStoreOptions store;
    store.transform = filter;
    store.indexes = IndexesOf(resource);
    watched.informer = std::make_unique<Informer>(
        api, resource, std::move(parts), std::move(store),
        [this, &resource](const Delta& delta) { Tell(resource, delta); }, timeline);
    watched_.push_back(std::move(watched));
  }
}

void Watches::Start() {
  for (Watched& one : watched_) {
    if (one.informer != nullptr) one.informer->Start();
  }
}

void Watches::Stop() {
  for (Watched& one : watched_) {
    if (one.informer != nullptr) one.informer->RequestStop();
  }
  for (Watched& one : watched_) {
    if (one.informer != nullptr) one.informer->Stop();
  }
}

Status Watches::Synced() const {
  for (const Watched& one : watched_) {
    if (one.informer == nullptr || one.informer->HasSynced()) continue;
    const Status error = one.informer->statistics().last_error;
    return Unavailable("waiting for the first list of " + one.resource->ToString() +
                       (error.ok() ? "" : ": " + error.message()));
  }
  return OkStatus();
}

const ObjectStore& Watches::StoreOf(const Resource& resource) const {
  const auto found = std::find_if(watched_.begin(), watched_.end(),
                                  [&](const Watched& one) { return one.resource == &resource; });
  JANUS_CHECK(found != watched_.end(), resource.ToString());
  return found->informer == nullptr ? *found->nothing : found->informer->store();
}

Caches Watches::caches() const {
  return {StoreOf(kMoEServices),
          StoreOf(kTopologies),
          StoreOf(kPods),
          StoreOf(kServices),
          StoreOf(kServiceAccounts),
          StoreOf(kDeployments),
          StoreOf(kDisruptionBudgets),
          StoreOf(kRoleScalers),
          StoreOf(kNetworkPolicies),
          StoreOf(kJobs),
          StoreOf(kAutoscalers),
          StoreOf(kNodes),
          StoreOf(kHardwareProfiles)};
}

void Watches::Tell(const Resource& resource, const Delta& delta) const {
  if (&resource == &kNodes) return TellOfNode(delta.key);
  if (&resource == &kHardwareProfiles) return;  // the next decision reads them
  // If the label or the target changed, both services get a pass.
  std::optional<ObjectKey> told;
  for (const Node* object : {delta.before, delta.after}) {
    if (object == nullptr) continue;
    std::optional<ObjectKey> key = ServiceKeyOf(resource, *object);
    if (!key || key == told) continue;
    wake_(*key);
    told = std::move(key);
  }
}

void Watches::TellOfNode(const ObjectKey& node) const {
  for (const Node& pod : StoreOf(kPods).Find(kByNode, node.name)) {
    if (const std::optional<ObjectKey> key = ServiceKeyOf(kPods, pod)) wake_(*key);
  }
}

}  // namespace janus::control
