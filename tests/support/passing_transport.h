#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// Passes everything on to the transport that it owns; tests override single functions.
class PassingTransport : public Transport {
 public:
  explicit PassingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  const TransportLayout& layout() const override { return inner_->layout(); }
  std::span<std::byte> Payload(int slot) override { return inner_->Payload(slot); }
  Status Post(int slot, const Header& header) override { return inner_->Post(slot, header); }
  bool Take(PeerId from, int slot, SlotMessage& message) override {
    return inner_->Take(from, slot, message);
  }
  bool Settle() override { return inner_->Settle(); }
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override {
    return inner_->Send(to, header, payload);
  }
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override {
    return inner_->Receive(from, header, payload);
  }
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override {
    return inner_->Wait(deadline, ready);
  }
  void Wake() override { inner_->Wake(); }
  uint64_t dropped() const override { return inner_->dropped(); }
  std::span<std::byte> FlagsOf(PeerId owner) override { return inner_->FlagsOf(owner); }
  std::vector<std::span<std::byte>> PayloadMemory() override { return inner_->PayloadMemory(); }
  std::string_view Describe(PeerId peer) const override { return inner_->Describe(peer); }

 private:
  const std::unique_ptr<Transport> inner_;
};

}  // namespace janus::dataplane
