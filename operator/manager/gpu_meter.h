#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/api/tree.h"
#include "operator/kube/object.h"
#include "operator/reconcile/observe/caches.h"

namespace janus::control {

// GPUs (GpusOf) of the service's pods that are of a committed topology and have not ended. Of two
// models side by side both count. Pure.
int64_t CommittedGpus(const Node& service, const Caches& caches);

// How long services have had how many GPUs. Thread-safe.
class GpuMeter {
 public:
  // From `now` on the service has so many; nothing: it is no more. One of another uid begins anew.
  void Set(const ObjectKey& service, const std::string& uid, std::optional<int64_t> gpus,
           MonotonicTime now);
  // GPUs times seconds up to `now`; nothing: never set.
  std::optional<double> SecondsOf(const ObjectKey& service, const std::string& uid,
                                  MonotonicTime now) const;
  void Clear();

 private:
  struct Meter {
    std::string uid;
    int64_t gpus = 0;
    MonotonicTime since;
    double before = 0;  // up to then
  };
  static double SecondsOf(const Meter& meter, MonotonicTime now) {
    return meter.before + static_cast<double>(meter.gpus) * Seconds(now - meter.since).count();
  }

  mutable Mutex mu_;
  std::map<ObjectKey, Meter> meters_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
