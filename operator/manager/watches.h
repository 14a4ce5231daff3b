#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "operator/kube/informer.h"
#include "operator/reconcile/observe/caches.h"

namespace janus::control {

struct WatchesOptions {
  // Namespaces to watch, each with separate watches; empty: all. No name twice.
  std::vector<std::string> namespaces;
  bool reads_nodes = true;             // false: the caches of nodes and HardwareProfiles stay empty
  MetricRegistry* registry = nullptr;  // of informers; outlives them; null: none
};

// The number of watches.
int CountWatches(const std::vector<std::string>& namespaces, bool reads_nodes = true);

// The informers for everything that a pass reads, and the mapping from a change to services: the
// service named by the object's label, or for a node each service with pods on it. They keep only
// what passes use: nothing that a node's heartbeat changes.
//
// Only the owner calls Start, Stop and the destructor; the rest is thread-safe.
class Watches {
 public:
  using WakeKey = std::function<void(const ObjectKey&)>;

  // `api` and `timeline` outlive this. `wake` and `on_listed` are called on informers' threads;
  // after `on_listed` the result of Synced may differ.
  Watches(ObjectApi& api, const Timeline& timeline, const WatchesOptions& options, WakeKey wake,
          const std::function<void()>& on_listed);

  void Start();
  // Returns after the last change is delivered. The caches keep their contents.
  void Stop();

  // OK once all caches have been complete. Unavailable: which are not yet, with their last error.
  Status Synced() const;
  // Valid as long as this.
  Caches caches() const;

 private:
  struct Watched {
    const Resource* resource;
    std::vector<std::unique_ptr<ReflectorMetrics>> metrics;
    std::unique_ptr<Informer> informer;  // null: not watched
    std::unique_ptr<ObjectStore> nothing;
  };

  const ObjectStore& StoreOf(const Resource& resource) const;
  void Tell(const Resource& resource, const Delta& delta) const;
  void TellOfNode(const ObjectKey& node) const;

  const WakeKey wake_;
  std::vector<Watched> watched_;
};

}  // namespace janus::control
