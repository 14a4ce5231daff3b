#pragma once

#include <memory>
#include <vector>

#include "dataplane/comm/transport/segment.h"

namespace janus::dataplane {

// The members of one epoch inside one process: their segments are heap memory. Tests and the
// one-process baseline use it. It runs the same code as shared memory.
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
