#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/exchange_size.h"
#include "common/fixed_point.h"
#include "common/row_format.h"
#include "common/status.h"
#include "common/topology.h"
#include "dataplane/comm/exchange/chosen_rows.h"
#include "dataplane/comm/transport/transport.h"

// Rounds between attention and expert instances, over any transport: rows go to the experts, and
// their contributions come back. dataplane/steps decides when a round takes place.
//
// May include: dataplane/comm/transport, dataplane/comm/wire, kernels, common.
namespace janus::dataplane {

// What the exchange must know to lay out its fixed slots; equal on all members of an epoch.
struct ExchangeShape {
  int hidden = 0;                // H
  int top_k = 0;                 // K
  DType wire = DType::kFloat32;  // of the activations
  int micro_batches = 1;         // rounds in flight per layer, b
  int max_rows = 512;            // R_max: rows of one sender in one round
  int m = 0;
  int n = 0;
  // For the two-phase modes:
  int layers = 1;            // rounds of a micro-batch in a step, at most: the model's MoE layers
  std::vector<int> node_of;  // by member, attention first; each role's nodes are numbered from 0

  Compression compression = Compression::kNone;
  FixedPointSums sums;  // if they are on, only rows are compressed

  // With the gate on attention, which needs all of these:
  GateSide gate = GateSide::kExperts;
  std::shared_ptr<const Placement> placement;
  // By member, attention first: its memory domain. In mode Direct, experts of the sender's domain
  // read all rows in place, and others get only those that they need. Empty: no two share one.
  std::vector<int> domain_of;

  // Of rows and contributions.
  RowFormat format() const { return {hidden, wire, compression}; }
  size_t row_bytes() const { return format().bytes(); }
  // Of a contribution, or of a sum of them.
  size_t reply_bytes() const { return sums.on() ? SumBytes(sums.bits, hidden) : row_bytes(); }
  ExchangeSize size() const {
    ExchangeSize size{m, n, micro_batches, max_rows, top_k, row_bytes()};
    if (sums.on()) size.sum_bytes = reply_bytes();
    size.gate = gate;
    return size;
  }
  bool ShareMemory(int attention, int expert) const {
    return !domain_of.empty() &&
           domain_of[static_cast<size_t>(attention)] == domain_of[static_cast<size_t>(m + expert)];
  }
};
ExchangeShape ShapeOf(const Topology& topology, int hidden, int top_k, DType wire,
                      Compression compression = Compression::kNone, FixedPointSums sums = {});
// Why rows and contributions cannot stay in GPU memory; empty: they can, if GPUs and networks can.
std::string_view WhyThroughHosts(const ExchangeShape& shape);

// By attention rank, whether it takes part in a step.
using Participants = std::vector<bool>;

// What both sides of a round share. Confined to the step thread.
//
// A member may give up its current round at any point. Once every member has done so (Abandon),
// slots are written again for a step with a higher number. A late message carries its older step
// number, and is dropped and counted.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // A step begins, with the round `first`. Called for every ticket in ascending order, also by an
  // attention instance that takes no part in the step: it may pass messages on for others.
  virtual void BeginStep(const RoundKey& first, const Participants& participants) = 0;

  // Gives up every running round and drops the messages received for it. True once nothing that was
  // posted here is still in flight, and a GPU that exchanges in place has run its queued work.
  // Until then the caller repeats the call, inside Transport::Wait. If rows pass through host
  // memory, the GPU may still copy from and to slots, but before any work that its stream gets from
  // then on (docs/steps.md).
  virtual bool Abandon() = 0;
  // Whether messages are held back until the GPU has run the work queued before them. Their readers
  // then need not wait for that GPU.
  virtual bool PostsBehindGpu() const = 0;
  // Stops the GPU's waits for peers. True once the GPU has run its queued work; until then the
  // caller repeats the call. Peers that read its slots afterwards get data of a round that is given
  // up.
  virtual bool LetGo() = 0;

  // Messages since the start that were dropped because their round was already over here.
  virtual uint64_t stale() const = 0;

  // Payload of rows and contributions since the start, counted once for each reader. In the
  // two-phase modes only what travels between nodes. Payloads in GPU memory count for the messages
  // that announce them. 0 for an exchange without messages.
  virtual Traffic sent() const { return {}; }
  virtual Traffic received() const { return {}; }

  // Of the rows and contributions in the slots. The caller packs what it writes there, and unpacks
  // what it reads (row_codec.h).
  virtual Compression compression() const { return Compression::kNone; }
  // With the sum rule FixedPoint, what a slot holds in place of contributions: the caller adds all
  // contributions of a row before it writes them.
  virtual FixedPointSums sums() const { return {}; }

  // Which side computes gate and top-k. On attention: the choices are written before Post
  // (Choices), and come with the rows (ArrivedRows::choices).
  virtual GateSide gate() const { return GateSide::kExperts; }
};

// The attention side of a round, in any mode. For each round: fill Rows, Post, then Poll until
// true, then read the contributions; only then may the next round of the same micro-batch be
// posted.
//
// Confined to the step thread. Nothing allocates after construction.
class AttentionExchange : public Exchange {
 public:
  // Where the caller writes the rows of a micro-batch, [max_rows] in the shape's format, 64-byte
  // aligned. Peers read them in place: they must not change from Post until Poll has returned true.
  virtual std::span<std::byte> Rows(int micro_batch) = 0;
  // The same in GPU memory, 256-byte aligned, if peers read this member's GPU memory
  // (device_slots.h); null: use Rows. Work queued before Post writes them. Work queued after
  // StreamWait may overwrite them.
  virtual std::byte* DeviceRows(int micro_batch) = 0;
  // With the gate on attention: where the caller writes, before it posts `rows` rows, the experts
  // that they chose and their weights, [rows, K]. An expert instance then gets only the rows of
  // which it holds a chosen expert. Otherwise empty.
  virtual ChosenExperts Choices(int micro_batch, int rows) {
    static_cast<void>(micro_batch), static_cast<void>(rows);
    return {};
  }

  // Sends `rows` >= 0 rows of the round to every expert instance. `ready`: from when on they count
  // as there, for receivers that are timed devices; others take them at once.
  virtual Status Post(const RoundKey& key, int rows, MonotonicTime ready) = 0;

  // True once every (row, top-k slot) of the round has exactly one contribution here. Internal: a
  // contribution twice, missing or out of range, with the sender's name.
  virtual Result<bool> Poll(const RoundKey& key) = 0;

  // When the last contributions of the micro-batch's round count as there, by this machine's clock.
  // Valid once Poll has returned true.
  virtual MonotonicTime Ready(int micro_batch) const = 0;

  // Expert instances that the micro-batch's round still waits for.
  virtual std::vector<Rank> Awaited(int micro_batch) const = 0;

  // contributions[row * K + slot] -> a contribution in the shape's format, in place. Valid after
  // Poll returned true and until the micro-batch's next Post. With sums: a sum that contains this
  // contribution, or null if another slot of the row has the address of that sum.
  virtual std::span<const void* const> Contributions(int micro_batch) const = 0;
  // The logical expert of each contribution, as its sender names it (ContributionRef::expert): not
  // checked. Valid as long as Contributions.
  virtual std::span<const uint16_t> Experts(int micro_batch) const = 0;
  // For each contribution 1 if its address is in GPU memory, as this member's GPU sees it,
  // otherwise 0; empty: all are on the host. Work queued after StreamWait may read those in GPU
  // memory.
  virtual std::span<const uint8_t> OnDevice(int micro_batch) const = 0;
  // Queued: the GPU's stream waits for the contributions that lie in a GPU's memory. Call it after
  // Poll has returned true, and before they are read.
  virtual Status StreamWait(const RoundKey& key) = 0;
  // For error messages: the expert instances that StreamWait still waits for, because their GPUs
  // have not delivered their contributions, and the round.
  struct LateExpert {
    Rank expert;
    RoundKey round;
    friend bool operator==(const LateExpert&, const LateExpert&) = default;
  };
  virtual std::vector<LateExpert> Behind() const = 0;
};

// What the gate on attention chose for the rows of one attention instance, checked: every expert
// exists. Valid until the next Poll for the same micro-batch and sender.
struct ArrivedChoices {
  std::span<const uint16_t> ids;      // [count, K]
  std::span<const float> weights;     // likewise
  std::span<const int32_t> place_of;  // [count]: a row's place among those that came; -1: it did
                                      // not, because none of its experts is held here
};

// Rows of one attention instance in one round.
struct ArrivedRows {
  int count = 0;
  const std::byte* rows = nullptr;  // [came] in the shape's format, in place
  int came = 0;                     // of the `count` rows; all of them without choices
  std::optional<ArrivedChoices> choices = std::nullopt;  // with the gate on attention
  bool on_device = false;  // whether `rows` is an address of this member's GPU
  MonotonicTime posted;
  MonotonicTime ready = {};  // when they count as there, by this machine's clock
};

// The expert side of a round, in any mode. For each round and participant: Poll until true, read
// the rows, then Begin, write, Post the contributions of this instance (possibly none).
//
// Confined to the step thread. Nothing allocates after construction.
class ExpertExchange : public Exchange {
 public:
  // True when the rows of `from` for this round are here. Rows in GPU memory may be read by work
  // that is queued after StreamWait.
  virtual Result<bool> Poll(const RoundKey& key, Rank from, ArrivedRows& arrived) = 0;
  // Queued: the GPU's stream waits for all rows in GPU memory that Poll has returned since the last
  // StreamWait.
  virtual Status StreamWait() = 0;
  // For error messages: whether the rows that Poll returned have been written by now.
  virtual bool IsThere(const RoundKey& key, Rank from, const ArrivedRows& arrived) const = 0;

  // Where contributions to `to` go if peers read this member's GPU memory (device_slots.h): [R_max
  // * K, H] of the wire type, in the order of their references. Work queued before Post writes
  // them. The address is the same in every round. Null: Begin returns the place.
  virtual std::byte* DeviceReplies(int micro_batch, Rank to) = 0;

  // Room for `count` contributions to `to`: refs[count] and rows [count] in the shape's format.
  // `rows` is null if DeviceReplies returned a place. With sums, the references must be in
  // ascending order of rows, and `rows` has one sum for each row that they name, in that order.
  struct Outgoing {
    std::span<ContributionRef> refs;
    std::byte* rows = nullptr;
  };
  virtual Outgoing Begin(int micro_batch, Rank to, int count) = 0;
  // `ready`: as AttentionExchange::Post has it.
  virtual Status Post(const RoundKey& key, Rank to, MonotonicTime ready) = 0;
};

// The slots of every member for the topology's mode.
TransportLayout LayoutFor(ExchangeMode mode, const ExchangeShape& shape, PeerId self);

class DeviceSlots;

// Puts the mode's relay around a transport that was made with LayoutFor(mode, shape, self) and is
// connected, with `device` if there is one. In mode Direct there is none. Step control and exchange
// must use the result alone. It is not called once `device` is closed.
std::unique_ptr<Transport> RelayOver(ExchangeMode mode, const ExchangeShape& shape,
                                     std::unique_ptr<Transport> transport,
                                     DeviceSlots* device = nullptr);

// `transport`: of RelayOver; it must have been connected with `device`. Both must outlive the
// exchange. `device` null: everything goes through host memory. Errors are those of
// DeviceSlots::Open.
Result<std::unique_ptr<AttentionExchange>> MakeAttentionExchange(const ExchangeShape& shape,
                                                                 Transport& transport,
                                                                 DeviceSlots* device = nullptr);
Result<std::unique_ptr<ExpertExchange>> MakeExpertExchange(const ExchangeShape& shape,
                                                           Transport& transport,
                                                           DeviceSlots* device = nullptr);

}  // namespace janus::dataplane
