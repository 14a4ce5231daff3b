#pragma once

#include <cstddef>
#include <cstdint>

#include "common/topology.h"

namespace janus {

// How much memory the members of an epoch keep for each other. One definition serves the
// transports, which allocate it, and the plans, which reserve it. In bytes; "aligned" is to 64.
// Pure.

// The parameters of an exchange's layout.
struct ExchangeSize {
  int m = 0;
  int n = 0;
  int micro_batches = 1;
  int max_rows = 0;  // of one sender in one round
  int top_k = 0;
  size_t row_bytes = 0;  // of a row, and of a contribution
  ExchangeMode mode = ExchangeMode::kDirect;
  // For the two-phase modes: instances of a node, at most.
  int attention_per_node = 1;
  int experts_per_node = 1;
  // Of a sum, with the rule FixedPoint; 0: contributions travel one by one.
  size_t sum_bytes = 0;
  // With the gate on attention, rows travel with the experts that they chose, and in mode Direct
  // every expert instance gets a message of its own.
  GateSide gate = GateSide::kExperts;
};

namespace exchange_size {

inline constexpr size_t kSegmentHeader = 64;
inline constexpr size_t kMessageHeader = 64;
inline constexpr size_t kMostControlPayload = 1024;  // a ticket of 256 instances
inline constexpr size_t kQueueDepth = 64;            // control messages to one reader
inline constexpr size_t kQueueCounters = 128;
inline constexpr size_t kSlotHead = 128;       // sequence number and header
inline constexpr size_t kContributionRef = 4;  // row and top-k slot of a contribution
inline constexpr size_t kChoicesHead = 4;      // how many rows came
inline constexpr size_t kSectionHead = 128;    // of a message within a bundle
inline constexpr size_t kFlag = 64;            // of one reader of one slot
inline constexpr size_t kSegmentPage = 4096;   // flags begin at a page
inline constexpr size_t kLandingSets = 2;      // sets of landing memory for a network
inline constexpr size_t kSmallMessage = 64;    // over a network: a credit
inline constexpr size_t kCredits = 4;
inline constexpr size_t kGreeting = 1024;
inline constexpr size_t kGreetings = 2;

constexpr size_t Aligned(size_t bytes, size_t alignment = 64) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace exchange_size

// The experts that the gate on attention chose: how many rows the message has, then `cells` experts
// of two bytes, then as many weights of four.
constexpr size_t ChoiceWeightsOffset(size_t cells) {
  return exchange_size::Aligned(exchange_size::kChoicesHead + cells * 2, 4);
}
constexpr size_t ChoiceBytes(size_t cells) {
  return ChoiceWeightsOffset(cells) + cells * 4;
}
// Payload of `sent` rows, then what the gate chose for all `cells` (row, top-k slot).
constexpr size_t ChosenRowsBytes(size_t sent, size_t cells, size_t row_bytes) {
  return exchange_size::Aligned(sent * row_bytes) + ChoiceBytes(cells);
}

// Payload of a slot with the rows of an attention instance.
constexpr size_t RowSlotBytes(const ExchangeSize& size) {
  const auto rows = static_cast<size_t>(size.max_rows);
  return size.gate == GateSide::kExperts
             ? rows * size.row_bytes
             : ChosenRowsBytes(rows, rows * static_cast<size_t>(size.top_k), size.row_bytes);
}

// Payload of `count` contributions: their references, then the vectors.
constexpr size_t ContributionBytes(size_t count, size_t row_bytes) {
  return exchange_size::Aligned(count * exchange_size::kContributionRef) + count * row_bytes;
}

// Payload of the references of `count` contributions, then `sums` sums of them.
constexpr size_t SummedBytes(size_t count, size_t sums, size_t sum_bytes) {
  return exchange_size::Aligned(count * exchange_size::kContributionRef) + sums * sum_bytes;
}

// Payload of an expert instance's slot for one attention instance: at most one contribution for
// every (row, top-k slot), or one sum for every row.
constexpr size_t ContributionSlotBytes(const ExchangeSize& size) {
  const auto rows = static_cast<size_t>(size.max_rows);
  const size_t count = rows * static_cast<size_t>(size.top_k);
  return size.sum_bytes == 0 ? ContributionBytes(count, size.row_bytes)
                             : SummedBytes(count, rows, size.sum_bytes);
}

// A message within a bundle of the two-phase modes.
constexpr size_t SectionBytes(size_t payload) {
  return exchange_size::kSectionHead + exchange_size::Aligned(payload);
}
// All contributions of an expert node's instances to one attention instance. Together they have at
// most one for every (row, top-k slot). Each instance has a section, and pads references and
// vectors. With sums, one section has those of the whole node.
constexpr size_t BundledContributionBytes(const ExchangeSize& size, int experts_in_node) {
  return static_cast<size_t>(experts_in_node) * SectionBytes(2 * exchange_size::Aligned(1)) +
         SectionBytes(ContributionSlotBytes(size));
}

// A slot in its owner's segment.
constexpr size_t SlotBytes(size_t payload) {
  return exchange_size::kSlotHead + exchange_size::Aligned(payload);
}

// The queue of control messages to one reader.
constexpr size_t ControlQueueBytes() {
  using namespace exchange_size;
  return kQueueCounters + kQueueDepth * (kMessageHeader + kMostControlPayload);
}

// The segment of one member: a queue for every other member, its slots, and, page-aligned, the
// flags of their readers. In the two-phase modes members differ: this is the largest.
size_t SegmentBytes(const ExchangeSize& size, Role role);

// The additional memory of a member that reaches its peers over a network: landing memory for their
// slots, and queues in both directions. In the two-phase modes at most so much.
size_t NetworkBytes(const ExchangeSize& size, Role role);
// Parts of that: the queues for one peer, and the landing memory of one slot's payload.
size_t NetworkQueueBytes();
constexpr size_t LandingBytes(size_t payload) {
  return exchange_size::Aligned(exchange_size::kMessageHeader + payload);
}

}  // namespace janus
