#include "dataplane/comm/transport/peer_sockets.h"

#include <sys/socket.h>

#include <utility>

namespace janus::dataplane {

void PeerSockets::Add(PeerId peer, Fd socket) {
  polls_.push_back({socket.get(), POLLIN | POLLRDHUP, 0});
  peers_.push_back(peer);
  sockets_.push_back(std::move(socket));
}

Status PeerSockets::Check() {
  if (poll(polls_.data(), polls_.size(), 0) <= 0) return OkStatus();
  for (size_t i = 0; i < polls_.size(); ++i) {
    if ((polls_[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      return Unavailable(ToString(peers_[i]) + " is gone: it closed its connection");
    }
  }
  return OkStatus();
}

void PeerSockets::Drain() {
  // A peer rings once per wait of ours. One read per call bounds the work if a peer never stops.
  char bytes[256];
  for (const Fd& socket : sockets_) (void)recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
}

}  // namespace janus::dataplane
