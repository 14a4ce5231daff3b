#pragma once

#include <poll.h>

#include <vector>

#include "common/fd.h"
#include "common/status.h"
#include "dataplane/comm/transport/segment.h"
#include "dataplane/comm/wire/layout.h"

namespace janus::dataplane {

// The sockets of the peers, kept open after the handshake. A peer is gone when its end is closed:
// the kernel closes it however the process ends. If a machine is gone, that takes 10 s without an
// answer. Confined.
class PeerSockets final : public Liveness {
 public:
  void Add(PeerId peer, Fd socket);
  Status Check() override;

  // For poll: readable when a peer wakes us; hung up when the peer is gone.
  const std::vector<pollfd>& polls() const { return polls_; }
  // Discards the bytes that woke us.
  void Drain();

 private:
  std::vector<pollfd> polls_;
  std::vector<PeerId> peers_;
  std::vector<Fd> sockets_;
};

}  // namespace janus::dataplane
