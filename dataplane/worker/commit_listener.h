#pragma once

namespace janus::dataplane {

// Called when a worker has committed another epoch, or another topology has superseded its own.
class CommitListener {
 public:
  virtual ~CommitListener() = default;
  // Called on the thread of the RPC, without the worker's lock; must not block.
  virtual void OnCommit() = 0;
};

}  // namespace janus::dataplane
