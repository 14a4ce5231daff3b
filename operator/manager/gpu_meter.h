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

// GPUs (GpusOf) of the service's pods that belong to a committed topology and have not ended. If
// two models run side by side, both count. Pure.
int64_t CommittedGpus(const Node& service, const Caches& caches);

// Counts GPU seconds of services. Thread-safe.
class GpuMeter {
 public:
  // The service has this many GPUs from `now` on; nothing: it is gone. Another uid starts at zero.
  void Set(const ObjectKey& service, const std::string& uid, std::optional<int64_t> gpus,
           MonotonicTime now);
  // GPUs times seconds up to `now`; nothing: Set was never called for it.
  std::optional<double> SecondsOf(const ObjectKey& service, const std::string& uid,
                                  MonotonicTime now) const;
  void Clear();

 private:
  struct Meter {
    std::string uid;
    int64_t gpus = 0;
    MonotonicTime since;
    double before = 0;  // GPU seconds up to `since`
  };
  static double SecondsOf(const Meter& meter, MonotonicTime now) {
    return meter.before + static_cast<double>(meter.gpus) * Seconds(now - meter.since).count();
  }

  mutable Mutex mu_;
  std::map<ObjectKey, Meter> meters_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
