#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "dataplane/comm/exchange/two_phase.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// A transport with peers that send what the fuzzer chooses, within a transport's guarantees: the
// right tag, and a payload of header.bytes that fits its slot. It follows its owner's round closely
// enough to pass the first check, and then lies in one field. At the end of the input every peer is
// gone.
class HostileTransport final : public Transport {
 public:
  HostileTransport(TransportLayout layout, FuzzedDataProvider& input)
      : layout_(std::move(layout)), input_(input) {
    for (const SlotSpec& slot : layout_.slots) {
      slots_.emplace(std::pair(slot.owner, slot.index), AlignedBuffer(slot.bytes));
    }
  }

  const TransportLayout& layout() const override { return layout_; }
  std::span<std::byte> Payload(int slot) override {
    AlignedBuffer& buffer = slots_.at({layout_.self, slot});
    return {buffer.data(), buffer.size()};
  }
  Status Post(int, const Header& header) override {
    last_ = header;
    return OkStatus();
  }
  bool Take(PeerId from, int slot, SlotMessage& message) override {
    if (!input_.ConsumeBool()) return false;
    AlignedBuffer& buffer = slots_.at({from, slot});
    const std::vector<uint8_t> bytes =
        input_.ConsumeBytes<uint8_t>(input_.ConsumeIntegralInRange<size_t>(0, buffer.size()));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(buffer.data()));
    const MessageKind kind =
        from.role == Role::kAttention ? MessageKind::kRows : MessageKind::kContributions;
    message.header = Lie(kind);
    // Of the two-phase modes: the message may be a bundle.
    if (!layout_.expert_nodes.empty() && input_.ConsumeBool()) {
      message.header.kind = MessageKind::kBundle;
      SectionHead head;
      head.header = Lie(input_.ConsumeBool() ? MessageKind::kRows : MessageKind::kContributions);
      head.header.sender = input_.ConsumeIntegralInRange<uint16_t>(0, 3);
      head.slot = input_.ConsumeIntegralInRange<uint32_t>(0, 5);
      if (buffer.size() >= sizeof head) std::memcpy(buffer.data(), &head, sizeof head);
    }
    message.header.bytes = std::min<uint64_t>(message.header.bytes, buffer.size());
    message.payload = {buffer.data(), message.header.bytes};
    return true;
  }
  bool Settle() override { return true; }
  Status Send(PeerId, const Header& header, std::span<const std::byte>) override {
    last_ = header;
    return OkStatus();
  }
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override {
    if (!input_.ConsumeBool()) return false;
    const std::vector<uint8_t> bytes =
        input_.ConsumeBytes<uint8_t>(input_.ConsumeIntegralInRange<size_t>(0, kMaxControlBytes));
    payload.resize(bytes.size());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(payload.data()));
    header = Lie(from == PeerId{Role::kAttention, Rank{0}}
                     ? input_.PickValueInArray({MessageKind::kTicket, MessageKind::kAbort})
                     : input_.PickValueInArray(
                           {MessageKind::kDemand, MessageKind::kMiss, MessageKind::kLeft}));
    header.bytes = payload.size();
    return true;
  }
  Status Wait(MonotonicTime, FunctionRef<bool()> ready) override {
    while (input_.remaining_bytes() > 0) {
      if (ready()) return OkStatus();
    }
    return Unavailable("the input is used up");
  }
  void Wake() override {}
  uint64_t dropped() const override { return 0; }
  std::string_view Describe(PeerId) const override { return "fuzz"; }

 private:
  Header Lie(MessageKind kind) {
    Header header = last_;
    header.kind = kind;
    header.count = input_.ConsumeIntegralInRange<uint32_t>(0, 9);
    header.bytes = input_.ConsumeIntegralInRange<uint64_t>(0, 4096);
    switch (input_.ConsumeIntegralInRange<int>(0, 9)) {
      case 0:
        header.kind = static_cast<MessageKind>(input_.ConsumeIntegral<uint8_t>());
        break;
      case 1:
        header.step = input_.ConsumeIntegral<uint64_t>();
        break;
      case 2:
        header.layer = input_.ConsumeIntegral<uint16_t>();
        break;
      case 3:
        header.micro_batch = input_.ConsumeIntegral<uint8_t>();
        break;
      case 4:
        header.count = input_.ConsumeIntegral<uint32_t>();
        break;
      case 5:
        header.epoch = input_.ConsumeIntegral<uint64_t>();
        break;
      case 6:
        ++header.step;
        break;
      case 7:
        ++header.layer;
        break;
      default:
        break;
    }
    return header;
  }

  const TransportLayout layout_;
  FuzzedDataProvider& input_;
  std::map<std::pair<PeerId, int>, AlignedBuffer> slots_;
  Header last_;  // the owner's last message
};

}  // namespace janus::dataplane
