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
    case Fault::kFlip:
      return "bit flipped";
  }
  return "unknown";
}

namespace {

Header Spoiled(Fault fault, const Header& header) {
  Header spoiled = header;
  switch (fault) {
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

}  // namespace

void FaultyTransport::Flip(std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const auto bit = static_cast<size_t>(messages_) * 13 % (bytes.size() * 8);
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

const PlannedFault* FaultyTransport::Next(const Header& header) {
  ++messages_;
  const PlannedFault* now = nullptr;
  for (size_t i = 0; i < plans_.size(); ++i) {
    const PlannedFault& plan = plans_[i];
    if (plan.among && !plan.among(header)) continue;
    const int message = seen_[i]++;
    if (message == plan.message || (plan.from_then_on && message > plan.message)) now = &plan;
  }
  return now;
}

Status FaultyTransport::Post(int slot, const Header& header) {
  const PlannedFault* plan = Next(header);
  if (plan == nullptr) return inner_->Post(slot, header);
  if (plan->fault == Fault::kDrop) return OkStatus();
  if (plan->fault == Fault::kDelay) {
    late_.push_back({MonotonicClock::now() + plan->delay, slot, {}, header, {}});
    return OkStatus();
  }
  if (plan->fault == Fault::kDuplicate) JANUS_RETURN_IF_ERROR(inner_->Post(slot, header));
  if (plan->fault == Fault::kFlip && header.kind == MessageKind::kContributions) {
    Flip(inner_->Payload(slot).first(header.count * sizeof(ContributionRef)));
  }
  if (plan->fault == Fault::kFlip && header.kind == MessageKind::kBundle) {
    Flip(inner_->Payload(slot).subspan(offsetof(Header, epoch),
                                       offsetof(Header, ready_ns) - offsetof(Header, epoch)));
  }
  return inner_->Post(slot, Spoiled(plan->fault, header));
}

Status FaultyTransport::Send(PeerId to, const Header& header, std::span<const std::byte> payload) {
  const PlannedFault* plan = Next(header);
  if (plan == nullptr) return inner_->Send(to, header, payload);
  if (plan->fault == Fault::kDrop) return OkStatus();
  if (plan->fault == Fault::kDelay) {
    late_.push_back(
        {MonotonicClock::now() + plan->delay, -1, to, header, {payload.begin(), payload.end()}});
    return OkStatus();
  }
  if (plan->fault == Fault::kDuplicate) JANUS_RETURN_IF_ERROR(inner_->Send(to, header, payload));
  if (plan->fault == Fault::kFlip) {
    std::vector<std::byte> flipped(payload.begin(), payload.end());
    Flip(flipped);
    return inner_->Send(to, header, flipped);
  }
  const bool cut = plan->fault == Fault::kBytes;
  return inner_->Send(to, Spoiled(plan->fault, header),
                      cut ? payload.first(payload.size() / 2) : payload);
}

Status FaultyTransport::DeliverLate(MonotonicTime now) {
  while (!late_.empty() && late_.front().due <= now) {
    const Late late = std::move(late_.front());
    late_.pop_front();
    JANUS_RETURN_IF_ERROR(late.slot >= 0 ? inner_->Post(late.slot, late.header)
                                         : inner_->Send(late.to, late.header, late.payload));
  }
  return OkStatus();
}

Status FaultyTransport::Wait(MonotonicTime deadline, FunctionRef<bool()> ready) {
  for (;;) {
    const MonotonicTime slice = late_.empty() ? deadline : std::min(deadline, late_.front().due);
    const Status waited = inner_->Wait(slice, ready);
    if (waited.code() != StatusCode::kDeadlineExceeded) return waited;
    const MonotonicTime now = MonotonicClock::now();
    JANUS_RETURN_IF_ERROR(DeliverLate(now));
    if (now >= deadline) return waited;
  }
}

}  // namespace janus::dataplane
