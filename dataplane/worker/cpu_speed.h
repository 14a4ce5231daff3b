#pragma once

#include <optional>

#include "common/device_report.h"
#include "common/model/description.h"
#include "common/mutex.h"
#include "common/status.h"

namespace janus::dataplane {

// How fast this process computes with weights like the model's, by this process's own kernels: on
// one thread, and on `threads`. The weights that it reads for one row take as many bytes as those
// that the model reads for one row, within 1 and 32 MiB, so that a small model is read out of the
// caches, as it is when it serves.
//
// Each rate is the median of five runs. All of it takes about 0.1 s; on a slow machine fewer runs
// are made. Work of other processes on the same cores lowers the rates, those of all threads most,
// which then wait for each other. A quota of less than one core does not: runs are shorter than its
// period. FailedPrecondition: this CPU lacks what the kernels need.
Result<CpuSpeed> MeasureCpuSpeed(const ModelDescription& model, int threads);

// Measures once in the life of a process. Thread-safe.
class CpuSpeedOnce {
 public:
  // The first call measures, and others wait for it; a later one returns what was measured, or
  // refused, then.
  Result<CpuSpeed> Get(const ModelDescription& model, int threads) JANUS_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::optional<Result<CpuSpeed>> measured_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
