#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::kernels {

// How long a context's stream takes for what it is given, lap by lap: by the device's clock, told
// once it has come so far. On the host, where what is queued has run, by the clock given.
//
// Confined to the thread that queues.
class Stopwatch {
 public:
  // For so many laps between two starts, at most. A failed allocation is noted in the context
  // (Context::TakeFailure).
  Stopwatch(Context& context, const Clock& clock, size_t most_laps);

  // Queued: the first lap begins; those before are forgotten.
  Status Start();
  // Queued: ends a lap, of a kind that the caller knows, and begins the next one.
  Status Lap(int kind);
  // Whether all of it has run.
  Result<bool> HasCome();
  // Once it has: every lap since the start, in order.
  Status Read(FunctionRef<void(int kind, Seconds took)> each);

 private:
  Status Mark(size_t at);

  Context& context_;
  const Clock& clock_;
  const bool is_host_;
  std::vector<std::unique_ptr<Event>> events_;  // of a device: [most_laps + 1]
  std::vector<MonotonicTime> times_;            // of the host, likewise
  std::vector<int> kinds_;                      // of the laps so far
};

}  // namespace janus::kernels
