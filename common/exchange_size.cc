#include "common/exchange_size.h"

#include <algorithm>

namespace janus {

using namespace exchange_size;

size_t SegmentBytes(const ExchangeSize& size, Role role) {
  const bool is_attention = role == Role::kAttention;
  const auto members = static_cast<size_t>(size.m + size.n);
  const auto slots = static_cast<size_t>(size.micro_batches * (is_attention ? 1 : size.m));
  const auto readers = static_cast<size_t>(is_attention ? size.n : 1);
  const size_t payload = is_attention ? RowSlotBytes(size) : ContributionSlotBytes(size);
  const size_t flags_at = Aligned(
      kSegmentHeader + members * ControlQueueBytes() + slots * SlotBytes(payload), kSegmentPage);
  return flags_at + Aligned(slots * readers * kFlag, kSegmentPage);
}

size_t NetworkQueueBytes() {
  return 2 * kQueueDepth * Aligned(kMessageHeader + kMostControlPayload) +
         (kCredits + 1) * kSmallMessage + (kGreetings + 1) * kGreeting;
}

size_t NetworkBytes(const ExchangeSize& size, Role role) {
  const bool is_attention = role == Role::kAttention;
  // Attention instances exchange control messages with each other as well, but no slots.
  const auto peers = static_cast<size_t>(is_attention ? size.m - 1 + size.n : size.m);
  const auto senders = static_cast<size_t>(is_attention ? size.n : size.m);
  const size_t payload = is_attention ? ContributionSlotBytes(size) : RowSlotBytes(size);
  const size_t landing =
      kLandingSets * senders * static_cast<size_t>(size.micro_batches) * LandingBytes(payload);
  return std::max(landing + peers * NetworkQueueBytes(), kSegmentPage);
}

}  // namespace janus
