#pragma once

#include <poll.h>

#include <algorithm>

#include "common/stop_signals.h"
#include "dataplane/worker/stop_requests.h"

namespace janus::dataplane {

// Every stop signal to this process is a request.
class StopBySignals final : public StopRequests {
 public:
  // `signals` outlives this.
  explicit StopBySignals(StopSignals& signals) : signals_(signals) {}

  bool Await(MonotonicTime deadline) override {
    constexpr std::chrono::milliseconds kLongest{60'000};  // of one poll
    for (;;) {
      bool came = false;
      while (signals_.Next()) came = true;
      if (came) return true;
      const MonotonicTime now = MonotonicClock::now();
      if (now >= deadline) return false;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          std::min<MonotonicTime::duration>(deadline - now, kLongest));
      pollfd readable{signals_.fd(), POLLIN, 0};
      poll(&readable, 1, static_cast<int>(left.count()));
    }
  }

 private:
  StopSignals& signals_;
};

}  // namespace janus::dataplane
