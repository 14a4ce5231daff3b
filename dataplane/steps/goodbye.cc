#include "dataplane/steps/goodbye.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "dataplane/comm/wire/wire.h"

namespace janus::dataplane {
namespace {

// Discards all other unread messages; they are no longer needed.
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
                 const std::stop_token& stop, const std::stop_token& departing, Seconds patience) {
  if (status.code() != StatusCode::kUnavailable) return status;
  if (!left) left = WhoSaidGoodbye(transport);
  if (!left) return status;
  std::mutex mu;
  std::condition_variable_any asked;
  const std::stop_callback hurry(departing, [&] {
    const std::lock_guard<std::mutex> lock(mu);
    asked.notify_all();
  });
  std::unique_lock<std::mutex> lock(mu);
  asked.wait_for(lock, stop, patience, [&] { return departing.stop_requested(); });
  lock.unlock();
  if (stop.stop_requested() || departing.stop_requested()) return OkStatus();
  return Unavailable(ToString(*left) + " was stopped, and the others were not");
}

}  // namespace janus::dataplane
