#pragma once

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "operator/kube/object_store.h"
#include "operator/kube/reflector.h"

namespace janus::control {

// An ObjectStore that follows the cluster from Start until destruction. It runs one thread, or one
// for each of several namespaces. Thread-safe, except Start, RequestStop, Stop and the destructor,
// which only the owner calls.
class Informer {
 public:
  // `api` and `timeline` outlive this. `deliver` is called on the informer's threads and may read
  // store(). Typically it maps the object to a key and adds that to a WorkQueue. If the queue
  // refuses a key, fill it again later from store().Keys().
  Informer(ObjectApi& api, Resource resource, ReflectorOptions options,
           ObjectStoreOptions store_options, Reflector::Deliver deliver, const Timeline& timeline)
      : Informer(api, std::move(resource), std::vector{std::move(options)},
                 std::move(store_options), std::move(deliver), timeline) {}

  // One store for several reflectors: at least one, each of a different namespace.
  Informer(ObjectApi& api, Resource resource, std::vector<ReflectorOptions> parts,
           ObjectStoreOptions store_options, Reflector::Deliver deliver, const Timeline& timeline)
      : store_(std::move(store_options)) {
    for (ReflectorOptions& part : parts) {
      reflectors_.push_back(
          std::make_unique<Reflector>(api, resource, std::move(part), store_, deliver, timeline));
    }
  }

  // Call once.
  void Start() {
    for (const auto& reflector : reflectors_) {
      threads_.emplace_back(
          [&reflector = *reflector](const std::stop_token& stop) { reflector.Run(stop); });
    }
  }
  // Requests the end without waiting, so that a caller can stop several informers at once.
  void RequestStop() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  // Returns after the last delta is delivered. The store keeps its contents.
  void Stop() {
    RequestStop();
    threads_.clear();
  }

  const ObjectStore& store() const { return store_; }
  // The store has been complete at least once: an object that is not in it does not exist.
  bool HasSynced() const {
    return std::ranges::all_of(reflectors_, [](const auto& one) { return one->HasSynced(); });
  }
  // Of the first part that has not synced; if all have, of the first part.
  ReflectorStatistics statistics() const {
    const auto lacking =
        std::ranges::find_if(reflectors_, [](const auto& one) { return !one->HasSynced(); });
    return (lacking == reflectors_.end() ? reflectors_.front() : *lacking)->statistics();
  }

 private:
  ObjectStore store_;
  std::vector<std::unique_ptr<Reflector>> reflectors_;
  std::vector<std::jthread> threads_;  // last: end first
};

}  // namespace janus::control
