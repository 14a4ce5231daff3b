#include "common/exchange_size.h"

#include <algorithm>

namespace janus {

using namespace exchange_size;

namespace {

int Ceil(int value, int by) {
  return (value + by - 1) / by;
}

// The most that one member has in a two-phase mode (dataplane/comm/exchange/lanes.h).
struct TwoPhaseMost {
  explicit TwoPhaseMost(const ExchangeSize& size)
      : attention(std::min(size.attention_per_node, size.m)),
        experts(std::min(size.experts_per_node, size.n)) {
    const int attention_nodes = Ceil(size.m, attention);
    const int expert_nodes = Ceil(size.n, experts);
    const bool is_single = size.mode == ExchangeMode::kTwoPhaseSingle;
    // Lanes of a pair of nodes.
    const int of_pair = is_single || expert_nodes >= attention ? 1 : Ceil(attention, expert_nodes);
    const int fewest = is_single || expert_nodes >= attention ? 1 : attention / expert_nodes;
    carried = Ceil(attention, fewest);
    // Nodes may have fewer members than the others, and their ends then have more lanes.
    attention_lanes = expert_nodes;
    expert_lanes = lanes_into_node = attention_nodes * of_pair;
    if (!is_single && size.m % attention == 0) {
      attention_lanes = Ceil(expert_nodes, attention);
    }
    if (!is_single && size.m % attention == 0 && size.n % experts == 0)
      expert_lanes = Ceil(expert_lanes, experts);
  }

  int attention, experts;   // instances of a node
  int carried = 0;          // attention instances that a lane carries
  int attention_lanes = 0;  // that end at one attention instance
  int expert_lanes = 0;
  int lanes_into_node = 0;  // into one expert node
};

size_t Times(int a, int b, size_t bytes) {
  return static_cast<size_t>(a) * static_cast<size_t>(b) * bytes;
}

// Bundles of rows that an attention instance sends in a round. With the gate on attention each
// lane carries other rows.
int BundlesOfRows(const ExchangeSize& size, const TwoPhaseMost& most) {
  return size.gate == GateSide::kExperts ? 1 : most.attention_lanes;
}

// A member's slots in a two-phase mode, without its flags.
size_t TwoPhaseSlots(const ExchangeSize& size, Role role, int& readers) {
  const TwoPhaseMost most(size);
  const int b = size.micro_batches;
  const auto carried = static_cast<size_t>(most.carried);
  const size_t rows = SlotBytes(carried * SectionBytes(RowSlotBytes(size)));
  const size_t spread = BundledContributionBytes(size, most.experts);
  if (role == Role::kAttention) {
    // On devices: of its rows.
    readers = b * std::max(most.attention + most.attention_lanes * (1 + most.carried), size.n);
    const int bundles = BundlesOfRows(size, most);
    const size_t own =
        static_cast<size_t>(b) * SlotBytes(RowSlotBytes(size)) + Times(b, bundles, rows);
    if (most.carried == 1) return own;  // contributions are read where they land
    return own + Times(most.attention_lanes * b, most.carried, SlotBytes(spread));
  }
  // On devices: of its contributions, and mates of the rows that land here.
  const int landed = std::min(size.m, most.expert_lanes * most.carried) * (most.experts - 1);
  readers = b * (size.m + std::max(most.expert_lanes * (1 + most.experts), landed));
  return Times(b, size.m, SlotBytes(ContributionSlotBytes(size))) +
         Times(b, most.expert_lanes, SlotBytes(carried * spread) + (most.experts > 1 ? rows : 0));
}

// Landing memory for the slots of all peers, if none shares memory.
size_t TwoPhaseLanding(const ExchangeSize& size, Role role) {
  const TwoPhaseMost most(size);
  const int b = size.micro_batches;
  const auto carried = static_cast<size_t>(most.carried);
  const size_t rows = LandingBytes(carried * SectionBytes(RowSlotBytes(size)));
  const size_t spread = BundledContributionBytes(size, most.experts);
  size_t landing = 0;
  if (role == Role::kAttention) {
    const int nodes = Ceil(size.n, most.experts);
    landing = Times(b, most.attention_lanes, LandingBytes(carried * spread));
    if (most.carried > 1) {
      landing += Times(b, most.carried - 1, LandingBytes(RowSlotBytes(size))) +
                 Times(b, nodes, LandingBytes(spread));
    }
  } else {
    // An end reads its mates' contributions to all ranks that its lanes carry.
    const int ranks = std::min(size.m, most.expert_lanes * most.carried);
    landing = Times(b, most.expert_lanes, rows) +
              Times(b * ranks, most.experts - 1, LandingBytes(ContributionSlotBytes(size)));
    if (most.experts > 1) landing += Times(b, most.lanes_into_node, rows);
  }
  return kLandingSets * landing;
}

}  // namespace

size_t SegmentBytes(const ExchangeSize& size, Role role) {
  const bool is_attention = role == Role::kAttention;
  const auto members = static_cast<size_t>(size.m + size.n);
  if (size.mode != ExchangeMode::kDirect) {
    int readers = 0;
    const size_t own = TwoPhaseSlots(size, role, readers);
    const size_t queues = kSegmentHeader + members * ControlQueueBytes();
    return Aligned(queues + own, kSegmentPage) +
           Aligned(static_cast<size_t>(readers) * kFlag, kSegmentPage);
  }
  // With the gate on attention: one slot for the readers that share memory, one for each other.
  const int sent = size.gate == GateSide::kExperts ? 1 : 1 + size.n;
  const auto slots = static_cast<size_t>(size.micro_batches * (is_attention ? sent : size.m));
  const auto readers = static_cast<size_t>(size.micro_batches * (is_attention ? size.n : size.m));
  const size_t payload = is_attention ? RowSlotBytes(size) : ContributionSlotBytes(size);
  const size_t flags_at = Aligned(
      kSegmentHeader + members * ControlQueueBytes() + slots * SlotBytes(payload), kSegmentPage);
  return flags_at + Aligned(readers * kFlag, kSegmentPage);
}

size_t NetworkQueueBytes() {
  return 2 * kQueueDepth * Aligned(kMessageHeader + kMostControlPayload) +
         (kCredits + 1) * kSmallMessage + (kGreetings + 1) * kGreeting;
}

size_t NetworkBytes(const ExchangeSize& size, Role role) {
  const bool is_attention = role == Role::kAttention;
  // Attention instances exchange control messages with each other as well, but no slots.
  const auto peers = static_cast<size_t>(is_attention ? size.m - 1 + size.n : size.m);
  if (size.mode != ExchangeMode::kDirect) {
    const auto mates = static_cast<size_t>(is_attention ? 0 : TwoPhaseMost(size).experts - 1);
    return TwoPhaseLanding(size, role) + (peers + mates) * NetworkQueueBytes();
  }
  const auto senders = static_cast<size_t>(is_attention ? size.n : size.m);
  const size_t payload = is_attention ? ContributionSlotBytes(size) : RowSlotBytes(size);
  const size_t landing =
      kLandingSets * senders * static_cast<size_t>(size.micro_batches) * LandingBytes(payload);
  return std::max(landing + peers * NetworkQueueBytes(), kSegmentPage);
}

}  // namespace janus
