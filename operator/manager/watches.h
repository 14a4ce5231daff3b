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
  // Those that are watched, each with watches of its own; empty: all. No name twice.
  std::vector<std::string> namespaces;
  MetricRegistry* registry = nullptr;  // of informers; outlives them; null: none
};

// How many watches they are.
int CountWatches(const std::vector<std::string>& namespaces);

// The informers of all that a pass reads, and which services a change concerns: those that own the
// object by its label, and for a node those that have pods on it. Kept is what passes use: of a
// node nothing that its heartbeat changes.
//
// Start, Stop and the destructor are the owner's; the rest is thread-safe.
class Watches {
 public:
  using WakeKey = std::function<void(const ObjectKey&)>;

  // `api` and `timeline` outlive this. `wake` is called on informers' threads, `on_listed` too:
  // Synced may answer otherwise now.
  Watches(ObjectApi& api, const Timeline& timeline, const WatchesOptions& options, WakeKey wake,
          const std::function<void()>& on_listed);

  void Start();
  // Returns when the last change is told. The caches stay as they are.
  void Stop();

  // Everything was there once. Unavailable: what is missing yet, with its last error.
  Status Synced() const;
  // Valid as long as this.
  Caches caches() const;

 private:
  struct Watched {
    const Resource* resource;
    std::vector<std::unique_ptr<ReflectorMetrics>> metrics;
    std::unique_ptr<Informer> informer;
  };

  const ObjectStore& StoreOf(const Resource& resource) const;
  void Tell(const Resource& resource, const Delta& delta) const;
  void TellOfNode(const ObjectKey& node) const;

  const WakeKey wake_;
  std::vector<Watched> watched_;
};

}  // namespace janus::control
