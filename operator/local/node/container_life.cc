#include "operator/local/node/container_life.h"

#include <algorithm>
#include <utility>

namespace janus::control {

void ContainerLife::Started(MonotonicTime now, WallTime wall) {
  restarts_ = starts_++;
  started_ = wall;
  running_since_ = now;
  start_at_.reset();
}

void ContainerLife::Ended(ContainerEnd end, MonotonicTime now) {
  const bool was_stable = running_since_ && now - *running_since_ >= pauses_.forgotten_after;
  if (!last_end_ || was_stable) {
    pause_ = Seconds(0);
  } else if (pause_ == Seconds(0)) {
    pause_ = pauses_.first;
  } else {
    pause_ = std::min(2 * pause_, pauses_.longest);
  }
  last_end_ = std::move(end);
  running_since_.reset();
  start_at_ = now + std::chrono::duration_cast<MonotonicTime::duration>(pause_);
}

}  // namespace janus::control
