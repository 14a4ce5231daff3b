#pragma once

#include <memory>
#include <vector>

#include "dataplane/comm/transport/segment.h"

namespace janus::dataplane {

// The members of one epoch inside one process: their segments are heap memory. Used by tests and by
// the one-process baseline; the code that runs on it is that of shared memory.
class LoopbackNetwork {
 public:
  // layout.self is ignored.
  explicit LoopbackNetwork(const TransportLayout& layout);

  // At most once per member; the transport may outlive the network.
  std::unique_ptr<Transport> Connect(PeerId self, WaitPolicy policy);

 private:
  TransportLayout layout_;
  std::vector<Segment> segments_;
};

}  // namespace janus::dataplane
