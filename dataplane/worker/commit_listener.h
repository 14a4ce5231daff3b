#pragma once

namespace janus::dataplane {

// Told when a worker has committed another epoch, or another topology has taken its place.
class CommitListener {
 public:
  virtual ~CommitListener() = default;
  // From the thread of the call, without the worker's lock; must not block.
  virtual void OnCommit() = 0;
};

}  // namespace janus::dataplane
