#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::kernels {

// Times pieces of what a context's stream runs, one after the other, by the device's clock. The
// times can be read once the stream has run all of it. On the host, where queued work has run
// already, it uses the clock given.
//
// Confined to the thread that queues.
class Stopwatch {
 public:
  // For so many timings between two starts, at most. A failed allocation is noted in the context
  // (Context::TakeFailure).
  Stopwatch(Context& context, const Clock& clock, size_t max_timings);

  // Queued: the first timing begins; earlier ones are forgotten.
  Status Start();
  // Queued: ends a timing of the caller's `kind`, and begins the next one.
  Status EndTiming(int kind);
  // Whether the stream has run all of it.
  Result<bool> Query();
  // After Query has returned true: every timing since the start, in order.
  Status Read(FunctionRef<void(int kind, Seconds took)> each);

 private:
  Status Mark(size_t at);

  Context& context_;
  const Clock& clock_;
  const bool is_host_;
  std::vector<std::unique_ptr<Event>> events_;  // of a device: [max_timings + 1]
  std::vector<MonotonicTime> times_;            // of the host, likewise
  std::vector<int> kinds_;                      // of the timings so far
};

}  // namespace janus::kernels
