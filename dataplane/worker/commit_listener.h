#pragma once

namespace janus::dataplane {

// Told when a worker has committed another epoch.
class CommitListener {
 public:
  virtual ~CommitListener() = default;
  // From the thread of the Commit, without the worker's lock; must not block.
  virtual void OnCommit() = 0;
};

}  // namespace janus::dataplane
