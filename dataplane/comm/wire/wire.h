#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/exchange_size.h"
#include "common/model/limits.h"
#include "common/status.h"

// The messages between instances: fixed little-endian structs. Every message begins with a Header.
// Its tag is derived from the epoch key; a message with another tag is dropped and counted.
//
// May include: common.
namespace janus::dataplane {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kProtocolVersion = 6;

// How the messages of a pair travel.
enum class PairTransport : uint8_t { kSharedMemory = 1, kUcx = 2 };

// The first message of both sides of a connection. If a field differs, the refusal names it
// (hello.h). `address_bytes` of the sender's address in the pair's transport follow. The first two
// fields keep their place in every version.
struct Hello {
  static constexpr uint64_t kMagic = 0x336f6c6c65686e6aULL;  // "jnhello3"
  static constexpr size_t kNumericsChars = 64;
  static constexpr size_t kRefusalChars = 256;
  static constexpr uint32_t kMostAddressBytes = 8192;

  uint64_t magic = kMagic;
  uint32_t protocol_version = kProtocolVersion;
  uint8_t role = 0;
  uint8_t sum_rule = 0;
  uint16_t rank = 0;
  uint64_t epoch = 0;
  // Proves knowledge of the epoch key, and does not reveal the tag of the messages.
  uint64_t key_check = 0;
  uint64_t model_digest = 0;
  uint64_t topology_hash = 0;
  uint64_t layout_hash = 0;
  char numerics[kNumericsChars] = {};  // class, as text
  char refusal[kRefusalChars] = {};    // empty, or why the sender refuses
  uint32_t address_bytes = 0;
  PairTransport transport = PairTransport::kSharedMemory;
  uint8_t compression = 0;
  uint16_t sums_check = 0;  // of what the sum rule FixedPoint adds by; 0: another rule
};
static_assert(sizeof(Hello) == 384 && std::is_trivially_copyable_v<Hello>);

// The descriptors that come with a HELLO over a Unix socket: the segment, and the sender's GPU
// memory that the receiver reads: slots, or between two instances of one role landing memory.
inline constexpr size_t kMostDescriptors = 2;
// One byte after both HELLOs of a pair are good: whether the sender has mapped the other's GPU
// memory.
enum class MapsDevice : char { kNo = 'n', kYes = 'y' };

// One exchange attention -> experts -> attention.
struct RoundKey {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t view = 0;
  uint16_t stream = 0;
  uint16_t layer = 0;
  uint8_t micro_batch = 0;
  friend auto operator<=>(const RoundKey&, const RoundKey&) = default;
};

enum class MessageKind : uint8_t {
  kRows = 1,           // attention -> experts: one micro-batch's rows [count]
  kContributions = 2,  // experts -> attention: `count` of (row, top-k slot, c)
  kTicket = 3,         // coordinator -> every member
  kDemand = 4,         // attention -> coordinator
  kBundle = 5,         // between nodes, and within one: `count` sections of one round (two_phase.h)
  kGoodbye = 6,        // to every peer: the sender was asked to stop (goodbye.h)
  // Giving up a step (docs/steps.md):
  // member -> coordinator: the round of the header was missed, or awaited when the step was given
  // up; payload: the reason as text; count: RoundTrouble
  kMiss = 7,
  kAbort = 8,  // coordinator -> every member: leave the steps up to the header's; payload: reason
  kLeft = 9,   // member -> coordinator: it has left them (Left)
  // expert instance -> its mates, while they connect: payload: for each attention rank one byte,
  // whether the sender reads that instance's GPU memory for its node (1)
  kLands = 10,
  kProbe = 16,
};

struct Header {
  uint64_t tag = 0;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t view = 0;
  uint16_t stream = 0;
  uint16_t layer = 0;
  MessageKind kind = MessageKind::kRows;
  uint8_t micro_batch = 0;
  uint16_t sender = 0;  // rank within its role
  uint32_t count = 0;   // rows or contributions
  uint64_t bytes = 0;   // of the payload behind the header
  // Sender's monotonic clock: from when on the message counts as there, and when it was posted.
  // ready_ns is later than posted_ns only between timed devices (docs/timed-devices.md).
  int64_t ready_ns = 0;
  int64_t posted_ns = 0;

  RoundKey key() const { return {epoch, step, view, stream, layer, micro_batch}; }
};
static_assert(sizeof(Header) == exchange_size::kMessageHeader &&
              std::is_trivially_copyable_v<Header>);

Header MakeHeader(MessageKind kind, const RoundKey& key, uint16_t sender, uint32_t count);

// Why a round was missed.
enum class RoundTrouble : uint32_t {
  kUnusable = 0,  // what arrived for it cannot be used
  kAwaited = 1    // incomplete: the awaited members may be waiting for another one
};

// The place of a contribution: row of the receiver's micro-batch, top-k slot of that row; and the
// logical expert that made it, for requests that want to know. A kContributions payload is
// ContributionRef[count], padding to 64 bytes, then rows [count] in the format of the epoch
// (common/row_format.h).
struct ContributionRef {
  static constexpr int kSlotBits = 5;
  // Of a layer. In models with more, the field has the lowest bits of the expert's number.
  static constexpr int kMostExperts = 1 << (16 - kSlotBits);

  uint16_t row = 0;
  uint16_t slot : kSlotBits = 0;
  uint16_t expert : 16 - kSlotBits = 0;
};
static_assert(sizeof(ContributionRef) == exchange_size::kContributionRef);
static_assert(kMaxTopK <= 1 << ContributionRef::kSlotBits);

constexpr size_t AlignUp(size_t bytes, size_t alignment = 64) {
  return (bytes + alignment - 1) / alignment * alignment;
}
constexpr size_t ContributionRowsOffset(size_t count) {
  return AlignUp(count * sizeof(ContributionRef));
}

// kTicket payload: TicketShare[m], by attention rank. A participant has at most `row_limit` rows;
// the headers of the first layer have the true counts. row_limit 0: takes no part in the step.
struct TicketShare {
  uint16_t row_limit = 0;
  uint16_t prefill_budget = 0;  // of the rows, at most so many prompt positions
};
static_assert(sizeof(TicketShare) == 4);

// Reads the shares from a kTicket payload, which is outside data. Checks that there are `m` of
// them, each with at most as many rows as a round carries, and at most as many prompt positions as
// rows. Internal says what is wrong.
Status ReadTicketShares(std::span<const std::byte> payload, int m, int max_rows,
                        std::vector<TicketShare>& shares);

// kDemand payload: what an attention instance could compute in the step of the header, and how its
// last step went.
struct Demand {
  uint32_t decode_rows = 0;
  uint32_t prefill_rows = 0;  // waiting prompt positions, not bounded by a step's rows
  uint64_t kv_tokens = 0;
  uint32_t last_decode_rows = 0;
  uint32_t last_prefill_rows = 0;
  int64_t last_step_ns = 0;  // 0: no step since its last demand
};
static_assert(sizeof(Demand) == 32);

// kLeft payload; expert instances send it too.
struct Left {
  uint64_t newest = 0;  // step of the newest ticket seen; above the header's only if falsified
  Demand demand;        // for the first step afterwards; experts: none
};
static_assert(sizeof(Left) == 40);

// The text of a kMiss or kAbort, which is outside data: cut to kMostReasonChars, without control
// characters.
inline constexpr size_t kMostReasonChars = 400;
std::string ReadReason(std::span<const std::byte> payload);
std::span<const std::byte> WriteReason(std::string_view reason);

// Reader -> writer of control messages, if they share no memory: how many it has read so far.
struct Credit {
  uint64_t tag = 0;
  uint64_t read = 0;
};
static_assert(sizeof(Credit) == 16);

using EpochKey = std::array<std::byte, 16>;

// Two different 64-bit values that only holders of the epoch key know: one tags the messages of the
// epoch, the other is in HELLO and does not reveal the first.
uint64_t EpochTag(const EpochKey& key, uint64_t epoch);
uint64_t EpochKeyCheck(const EpochKey& key, uint64_t epoch);

}  // namespace janus::dataplane
