#include "dataplane/comm/goodbye.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "dataplane/comm/wire.h"

namespace janus::dataplane {
namespace {

// Whatever else was still unread is of no use any more.
std::optional<PeerId> WhoSaidGoodbye(Transport& transport) {
  Header header;
  std::vector<std::byte> payload;
  for (const PeerId& peer : PeersOf(transport.layout())) {
    while (transport.Receive(peer, header, payload)) {
      if (header.kind == MessageKind::kGoodbye) return peer;
    }
  }
  return std::nullopt;
}

}  // namespace

void SayGoodbye(Transport& transport, uint64_t epoch) {
  const TransportLayout& layout = transport.layout();
  RoundKey key;
  key.epoch = epoch;
  const Header header =
      MakeHeader(MessageKind::kGoodbye, key, static_cast<uint16_t>(layout.self.rank.value), 0);
  for (const PeerId& peer : PeersOf(layout)) {
    static_cast<void>(transport.Send(peer, header, {}));
  }
}

Status JudgeLoss(Status status, Transport& transport, std::optional<PeerId> left,
                 const std::stop_token& stop, Seconds patience) {
  if (status.code() != StatusCode::kUnavailable) return status;
  if (!left) left = WhoSaidGoodbye(transport);
  if (!left) return status;
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock<std::mutex> lock(mu);
  never.wait_for(lock, stop, patience, [] { return false; });
  if (stop.stop_requested()) return OkStatus();
  return Unavailable(ToString(*left) + " was stopped, and the others were not");
}

}  // namespace janus::dataplane
