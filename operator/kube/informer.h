#pragma once

#include <thread>
#include <utility>

#include "operator/kube/object_store.h"
#include "operator/kube/reflector.h"

namespace janus::control {

// An ObjectStore that follows the cluster on a thread of its own, from Start until it is destroyed.
// Thread-safe, but for Start, RequestStop, Stop and the destructor: the owner's.
class Informer {
 public:
  // `api` and `timeline` outlive this. `deliver` is called on the informer's thread and may read
  // store(); typically it maps the object to a key and adds that to a WorkQueue. A queue that
  // refused it can be filled again from store().Keys().
  Informer(ObjectApi& api, Resource resource, ReflectorOptions options,
           ObjectStoreOptions store_options, Reflector::Deliver deliver, const Timeline& timeline)
      : store_(std::move(store_options)),
        reflector_(api, std::move(resource), std::move(options), store_, std::move(deliver),
                   timeline) {}

  // Once.
  void Start() {
    thread_ = std::jthread([this](const std::stop_token& stop) { reflector_.Run(stop); });
  }
  // Asks it to end and does not wait: for who ends several at once.
  void RequestStop() { thread_.request_stop(); }
  // Returns when the last delta is delivered. The store stays as it is.
  void Stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

  const ObjectStore& store() const { return store_; }
  // The store has held everything once: what it lacks is not there.
  bool HasSynced() const { return reflector_.HasSynced(); }
  ReflectorStatistics statistics() const { return reflector_.statistics(); }

 private:
  ObjectStore store_;
  Reflector reflector_;
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
