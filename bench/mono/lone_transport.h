#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "common/doorbell.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::bench {

// The transport of an attention instance without peers. It drops tickets for experts, and only Wake
// ends a wait.
class LoneTransport final : public dataplane::Transport {
 public:
  explicit LoneTransport(WaitPolicy policy) : policy_(policy) {}

  const dataplane::TransportLayout& layout() const override { return layout_; }
  std::span<std::byte> Payload(int) override { return {}; }
  Status Post(int, const dataplane::Header&) override { return Internal("no peer reads slots"); }
  bool Take(dataplane::PeerId, int, dataplane::SlotMessage&) override { return false; }
  bool Settle() override { return true; }
  Status Send(dataplane::PeerId, const dataplane::Header&, std::span<const std::byte>) override {
    return OkStatus();
  }
  bool Receive(dataplane::PeerId, dataplane::Header&, std::vector<std::byte>&) override {
    return false;
  }
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override {
    if (WaitFor(bell_, policy_, deadline, ready)) return OkStatus();
    return DeadlineExceeded("nothing came");
  }
  void Wake() override { bell_.Ring(); }
  uint64_t dropped() const override { return 0; }
  std::string_view Describe(dataplane::PeerId) const override { return "one process"; }

 private:
  const WaitPolicy policy_;
  const dataplane::TransportLayout layout_;
  Doorbell bell_;
};

}  // namespace janus::bench
