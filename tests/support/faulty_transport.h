#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// A fault of one message.
enum class Fault {
  kDrop,       // it is never sent
  kDelay,      // it is sent late: its sender has begun to wait, and got nothing for `delay`
  kDuplicate,  // it is sent twice
  kCount,      // its header has a wrong count
  kKey,        // its header names another round
  kBytes,      // it is cut short, and its header too
  kFlip,       // a bit of its payload flips; in contributions only of their refs, in bundles only
               // of the first section's head. We do not check vectors (docs/exchange.md)
};
inline constexpr Fault kAllFaults[] = {Fault::kDrop,  Fault::kDelay, Fault::kDuplicate,
                                       Fault::kCount, Fault::kKey,   Fault::kBytes,
                                       Fault::kFlip};
std::string_view ToString(Fault fault);

struct PlannedFault {
  Fault fault = Fault::kDrop;
  int message = 0;  // counts this member's posts and sends from 0, each destination
                    // of a control message separately
  std::chrono::milliseconds delay{20};
  std::function<bool(const Header&)> among = {};  // counts only these; null: all
  bool from_then_on = false;                      // also all later ones
};

// A transport that applies planned faults to some messages and passes all others on. Confined to
// its owner's step thread, like every transport.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, std::vector<PlannedFault> plans)
      : inner_(std::move(inner)), plans_(std::move(plans)), seen_(plans_.size(), 0) {}

  // Messages so far; a sweep counts its positions by them.
  int messages() const { return messages_; }

  const TransportLayout& layout() const override { return inner_->layout(); }
  std::span<std::byte> Payload(int slot) override { return inner_->Payload(slot); }
  Status Post(int slot, const Header& header) override;
  bool Take(PeerId from, int slot, SlotMessage& message) override {
    return inner_->Take(from, slot, message);
  }
  bool Settle() override { return inner_->Settle(); }
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override;
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override {
    return inner_->Receive(from, header, payload);
  }
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override;
  void Wake() override { inner_->Wake(); }
  uint64_t dropped() const override { return inner_->dropped(); }
  std::span<std::byte> FlagsOf(PeerId owner) override { return inner_->FlagsOf(owner); }
  std::vector<std::span<std::byte>> PayloadMemory() override { return inner_->PayloadMemory(); }
  std::string_view Describe(PeerId peer) const override { return inner_->Describe(peer); }

 private:
  struct Late {
    MonotonicTime due;
    int slot = -1;  // -1: a control message to `to`
    PeerId to;
    Header header;
    std::vector<std::byte> payload;
  };
  // The fault of the message, if it has one.
  const PlannedFault* Next(const Header& header);
  Status DeliverLate(MonotonicTime now);
  // Flips a different bit for each message of a sweep.
  void Flip(std::span<std::byte> bytes) const;

  const std::unique_ptr<Transport> inner_;
  const std::vector<PlannedFault> plans_;
  std::vector<int> seen_;  // by plan: messages counted so far
  int messages_ = 0;
  std::deque<Late> late_;  // by due time
};

}  // namespace janus::dataplane
