#include "tests/support/faulty_transport.h"

#include <algorithm>

namespace janus::dataplane {

std::string_view ToString(Fault fault) {
  switch (fault) {
    case Fault::kDrop:
      return "drop";
    case Fault::kDelay:
      return "delay";
    case Fault::kDuplicate:
      return "duplicate";
    case Fault::kCount:
      return "wrong count";
    case Fault::kKey:
      return "wrong round";
    case Fault::kBytes:
      return "cut short";
  }
  return "unknown";
}

Header FaultyTransport::Spoiled(const Header& header) const {
  Header spoiled = header;
  switch (plan_.fault) {
    case Fault::kCount:
      ++spoiled.count;
      break;
    case Fault::kKey:
      ++spoiled.step;
      break;
    case Fault::kBytes:
      spoiled.bytes /= 2;
      break;
    default:
      break;
  }
  return spoiled;
}

Status FaultyTransport::Post(int slot, const Header& header) {
  if (!Now()) return inner_->Post(slot, header);
  if (plan_.fault == Fault::kDrop) return OkStatus();
  if (plan_.fault == Fault::kDelay) {
    late_ = Late{MonotonicClock::now() + plan_.delay, slot, {}, header, {}};
    return OkStatus();
  }
  if (plan_.fault == Fault::kDuplicate) JANUS_RETURN_IF_ERROR(inner_->Post(slot, header));
  return inner_->Post(slot, Spoiled(header));
}

Status FaultyTransport::Send(PeerId to, const Header& header, std::span<const std::byte> payload) {
  if (!Now()) return inner_->Send(to, header, payload);
  if (plan_.fault == Fault::kDrop) return OkStatus();
  if (plan_.fault == Fault::kDelay) {
    late_ =
        Late{MonotonicClock::now() + plan_.delay, -1, to, header, {payload.begin(), payload.end()}};
    return OkStatus();
  }
  if (plan_.fault == Fault::kDuplicate) JANUS_RETURN_IF_ERROR(inner_->Send(to, header, payload));
  const bool cut = plan_.fault == Fault::kBytes;
  return inner_->Send(to, Spoiled(header), cut ? payload.first(payload.size() / 2) : payload);
}

Status FaultyTransport::DeliverLate() {
  const Late late = *std::exchange(late_, std::nullopt);
  if (late.slot >= 0) return inner_->Post(late.slot, late.header);
  return inner_->Send(late.to, late.header, late.payload);
}

Status FaultyTransport::Wait(MonotonicTime deadline, FunctionRef<bool()> ready) {
  if (late_) {
    const MonotonicTime due = std::min(deadline, late_->due);
    const Status waited = inner_->Wait(due, ready);
    if (waited.ok() || waited.code() != StatusCode::kDeadlineExceeded) return waited;
    if (late_ && MonotonicClock::now() >= late_->due) JANUS_RETURN_IF_ERROR(DeliverLate());
  }
  return inner_->Wait(deadline, ready);
}

}  // namespace janus::dataplane
