#pragma once

#include "common/clock.h"

namespace janus::dataplane {

// How an instance is asked to end: by signals to its process, or by the worker that has put it into
// the process of a GPU. Confined to the thread that runs the instance.
class StopRequests {
 public:
  virtual ~StopRequests() = default;

  // Waits for the next request, at most until `deadline`. False: none came by then.
  virtual bool Await(MonotonicTime deadline) = 0;
  // Whether the last request leaves no time: the instance ends at once.
  virtual bool leaves_no_time() const { return false; }
};

}  // namespace janus::dataplane
