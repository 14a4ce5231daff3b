#pragma once

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "operator/kube/object_store.h"
#include "operator/kube/reflector.h"

namespace janus::control {

// An ObjectStore that follows the cluster from Start until it is destroyed, on a thread of its own,
// or one for each of several namespaces. Thread-safe, but for Start, RequestStop, Stop and the
// destructor: the owner's.
class Informer {
 public:
  // `api` and `timeline` outlive this. `deliver` is called on the informer's threads and may read
  // store(); typically it maps the object to a key and adds that to a WorkQueue. A queue that
  // refused it can be filled again from store().Keys().
  Informer(ObjectApi& api, Resource resource, ReflectorOptions options,
           ObjectStoreOptions store_options, Reflector::Deliver deliver, const Timeline& timeline)
      : Informer(api, std::move(resource), std::vector{std::move(options)},
                 std::move(store_options), std::move(deliver), timeline) {}

  // One store of what several reflectors select: at least one, all of other namespaces.
  Informer(ObjectApi& api, Resource resource, std::vector<ReflectorOptions> parts,
           ObjectStoreOptions store_options, Reflector::Deliver deliver, const Timeline& timeline)
      : store_(std::move(store_options)) {
    for (ReflectorOptions& part : parts) {
      reflectors_.push_back(
          std::make_unique<Reflector>(api, resource, std::move(part), store_, deliver, timeline));
    }
  }

  // Once.
  void Start() {
    for (const auto& reflector : reflectors_) {
      threads_.emplace_back(
          [&reflector = *reflector](const std::stop_token& stop) { reflector.Run(stop); });
    }
  }
  // Asks it to end and does not wait, so that a caller can end several at once.
  void RequestStop() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  // Returns when the last delta is delivered. The store stays as it is.
  void Stop() {
    RequestStop();
    threads_.clear();
  }

  const ObjectStore& store() const { return store_; }
  // The store has held everything once: what it lacks is not there.
  bool HasSynced() const {
    return std::ranges::all_of(reflectors_, [](const auto& one) { return one->HasSynced(); });
  }
  // Of the first part that has not synced, or of the first.
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
