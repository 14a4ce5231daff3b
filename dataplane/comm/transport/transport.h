#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/doorbell.h"
#include "common/exchange_size.h"
#include "common/function_ref.h"
#include "common/status.h"
#include "dataplane/comm/wire/layout.h"
#include "dataplane/comm/wire/wire.h"

// Transports carry messages between the members of an epoch: over a heap (loopback), shared memory
// or a network (ucx/). They do not know what the messages mean.
//
// May include: dataplane/comm/handshake, dataplane/comm/wire, kernels, common.
namespace janus::dataplane {

// A message in a slot. `payload` lies where the sender wrote it (shared memory) or where the
// transport landed it. It stays valid and unchanged until the reader's protocol allows the owner to
// post the slot again.
struct SlotMessage {
  Header header;
  std::span<const std::byte> payload;
};

inline constexpr size_t kMaxControlBytes = exchange_size::kMostControlPayload;
inline constexpr uint64_t kControlQueueDepth = exchange_size::kQueueDepth;
inline constexpr size_t kFlagStride = exchange_size::kFlag;

// What a member sends or receives: slot messages, counted once for each reader.
struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;  // of their payloads
};

// The part of a transport that passes on messages for other members of its node (two_phase.h).
// Confined like its transport.
class NodeRelay {
 public:
  virtual ~NodeRelay() = default;

  // A step begins, with the round `first`. `senders`: by attention rank, whether it takes part.
  // Called once for each ticket in ascending order, by every member, also by one that takes no
  // part. Without the call, the member passes on nothing of the step, which is then missed. Until
  // the first call, and from Settle to the next call, nothing is passed on.
  virtual void BeginStep(const RoundKey& first, const std::vector<bool>& senders) = 0;

  // Between nodes, since the start.
  virtual Traffic sent() const = 0;
  virtual Traffic received() const = 0;
  // Messages since the start that were dropped because their round was over.
  virtual uint64_t stale() const = 0;
};

// Connects one instance to its peers. A slot is written in place, posted once per round and read in
// place, without a copy where memory is shared. Small control messages travel on bounded ordered
// queues beside it. Only Wait blocks, and no call allocates memory after construction (except for
// error texts).
//
// Confined to the instance's step thread, except Wake and Describe, which are thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual const TransportLayout& layout() const = 0;

  // Memory of the instance's own slot; 64-byte aligned, bytes of its SlotSpec.
  virtual std::span<std::byte> Payload(int slot) = 0;

  // Publishes header.bytes of the slot to its readers. The caller's protocol guarantees that the
  // readers are done with the slot's previous message. Unavailable: a reader is known to be gone.
  virtual Status Post(int slot, const Header& header) = 0;

  // The newest message of a peer's slot that Take has not returned yet, if there is one. A message
  // with a wrong tag or impossible size is dropped and counted.
  virtual bool Take(PeerId from, int slot, SlotMessage& message) = 0;

  // For a round that is given up: drops what was posted but has not begun to leave. True once
  // nothing of the slots is in flight any more, so that they may be overwritten as soon as their
  // readers are done. Until then the caller repeats the call, inside Wait. Independent of the
  // readers' protocol.
  virtual bool Settle() = 0;

  // Queues a control message: header + payload (<= kMaxControlBytes). Ordered per pair, delivered
  // once. ResourceExhausted: the peer has kControlQueueDepth unread already.
  virtual Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) = 0;

  // The next control message of `from`, copied into `payload` (at most kMaxControlBytes).
  virtual bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) = 0;

  // Waits until ready() is true (OK), until the deadline (DeadlineExceeded), or until a peer is
  // found gone (Unavailable, naming it). Code outside that changes the result of ready() must call
  // Wake().
  virtual Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) = 0;
  virtual void Wake() = 0;

  // Messages dropped for a wrong tag or impossible size since the start.
  virtual uint64_t dropped() const = 0;

  // The words by which devices wait for what a member posts (kernels::Flag), kFlagStride bytes
  // apart, in the order of the layout: one for each of its slots on devices and each reader of that
  // slot, then one for each of its landings and each mate.
  // Initially 0; whole pages. The owner and the reader write them. Empty: the pair shares no
  // memory.
  virtual std::span<std::byte> FlagsOf(PeerId) { return {}; }

  // The memory of payloads that this member writes and reads, if it belongs to this process and not
  // to a device. Whole pages, valid as long as the transport lives. Devices copy from and to it
  // (pinned_payloads.h).
  virtual std::vector<std::span<std::byte>> PayloadMemory() { return {}; }

  // Null: every message goes directly to its readers.
  virtual NodeRelay* relay() { return nullptr; }

  // How the pair communicates, for logs: "shared memory", "UCX tcp/lo", "loopback".
  virtual std::string_view Describe(PeerId peer) const = 0;
};

}  // namespace janus::dataplane
